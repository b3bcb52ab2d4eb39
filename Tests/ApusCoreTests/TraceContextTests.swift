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

    @Test func `Whether it is recorded is bit 0 alone`() throws {
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
    func `What is not of this form is no trace`(_ text: String) {
        #expect(TraceContext(traceparent: text) == nil)
    }

    @Test func `Of a later version the first four fields count`() throws {
        let later = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-brings"
        #expect(try #require(TraceContext(traceparent: later)).traceparent == Self.example)
    }

    @Test func `A step is in the same trace, and the same span each time`() throws {
        let context = try #require(TraceContext(traceparent: Self.example))
        let step = context.child("dispatch", of: "order-17")
        #expect(step.trace == context.trace && step.flags == context.flags)
        #expect(step == context.child("dispatch", of: "order-17"))
        let others = [context.child("dispatch", of: "order-18"), context.child("feedback", of: "order-17"), context]
        #expect(!others.contains(step))
        #expect(TraceContext(traceparent: step.traceparent) == step)
    }
}
