import ApusCore
import Testing

/// W3C Trace Context, §3.2 and its examples.
@Suite struct TraceContextTests {
    private static let example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    @Test func `The example is read and written as it is`() throws {
        let context = try #require(TraceContext(traceparent: Self.example))
        #expect(context.trace.description == "4bf92f3577b34da6a3ce929d0e0e4736")
        #expect(context.span.description == "00f067aa0ba902b7")
        #expect(context.isSampled)
        #expect(context.traceparent == Self.example)
    }

    @Test func `Bit 0 alone says whether a trace is recorded`() throws {
        let prefix = Self.example.dropLast(2)
        for (flags, isSampled) in [("00", false), ("01", true), ("02", false), ("ff", true)] {
            let context = try #require(TraceContext(traceparent: prefix + flags))
            #expect(context.isSampled == isSampled)
            #expect(context.traceparent == prefix + flags)
        }
    }

    @Test(arguments: [
        "", "00", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-brings",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01.what",
    ])
    func `A text of another form is not a trace`(_ text: String) {
        #expect(TraceContext(traceparent: text) == nil)
    }

    @Test func `The first four fields of a later version are read`() throws {
        let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-brings"
        #expect(try #require(TraceContext(traceparent: later)).traceparent == Self.example)
    }

    @Test func `A step is in the same trace and has the same span id each time`() throws {
        let context = try #require(TraceContext(traceparent: Self.example))
        let step = context.child("dispatch", of: "order-17")
        #expect(step.trace == context.trace && step.flags == context.flags)
        #expect(step == context.child("dispatch", of: "order-17"))
        let others = [context.child("dispatch", of: "order-18"), context.child("feedback", of: "order-17"), context]
        #expect(!others.contains(step))
        #expect(TraceContext(traceparent: step.traceparent) == step)
    }
}
