import ApusRedis
import NIOCore
import Testing

@Suite("Redis pipeline")
struct RedisPipelineTests {
    private static let start = NIODeadline.uptimeNanoseconds(0)

    private static func at(_ milliseconds: Int64) -> NIODeadline { Self.start + .milliseconds(milliseconds) }

    private static func pipeline(pendingMax: Int = 10, outboundBytesMax: Int = 1_000) -> RedisPipeline<String> {
        let limits = RedisPipeline<String>.Limits(
            pendingMax: pendingMax,
            outboundBytesMax: outboundBytesMax,
            keepAlive: .seconds(10),
            pingTimeout: .seconds(1),
        )
        return RedisPipeline(limits: limits, now: Self.start)
    }

    private static func refusal(_ action: RedisPipeline<String>.SubmitAction) -> RedisError.Code? {
        guard case .refuse(let error) = action else { return nil }
        return error.code
    }

    private static func completed(_ action: RedisPipeline<String>.ReplyAction) -> String? {
        guard case .complete(let context) = action else { return nil }
        return context
    }

    @Test("replies belong to commands in their order")
    func order() {
        var pipeline = Self.pipeline()
        for name in ["a", "b", "c"] {
            let refusal = Self.refusal(pipeline.submit(name, byteCount: 1, deadline: Self.at(100)))
            #expect(refusal == nil)
        }
        let completed = (0..<3).map { _ in Self.completed(pipeline.replyReceived()) }
        #expect(completed == ["a", "b", "c"])
    }

    @Test("a reply that nobody asked for is a violation")
    func unsolicited() {
        var pipeline = Self.pipeline()
        guard case .violation(let error) = pipeline.replyReceived() else {
            Issue.record("taken")
            return
        }
        #expect(error.code == .protocolViolation)
    }

    @Test("waiting commands are bounded")
    func pendingMax() {
        var pipeline = Self.pipeline(pendingMax: 2)
        let answers = (0..<3).map { _ in Self.refusal(pipeline.submit("x", byteCount: 1, deadline: Self.at(100))) }
        #expect(answers == [nil, nil, .full])
        _ = pipeline.replyReceived()
        let again = Self.refusal(pipeline.submit("x", byteCount: 1, deadline: Self.at(100)))
        #expect(again == nil)
    }

    @Test("bytes that the socket has not taken are bounded")
    func outboundBytesMax() {
        var pipeline = Self.pipeline()
        let answers = [1_000, 1].map { Self.refusal(pipeline.submit("x", byteCount: $0, deadline: Self.at(100))) }
        #expect(answers == [nil, .full])
        pipeline.drained()
        let again = Self.refusal(pipeline.submit("x", byteCount: 1, deadline: Self.at(100)))
        #expect(again == nil)
    }

    @Test("the bytes of one command are bounded")
    func commandBytesMax() {
        var pipeline = Self.pipeline(outboundBytesMax: .max)
        let answers = [RedisLimits.commandBytesMax, RedisLimits.commandBytesMax + 1].map {
            Self.refusal(pipeline.submit("x", byteCount: $0, deadline: Self.at(100)))
        }
        #expect(answers == [nil, .tooLarge])
    }

    @Test("the earliest deadline counts, wherever in the queue")
    func deadlines() {
        var pipeline = Self.pipeline()
        _ = pipeline.submit("slow", byteCount: 1, deadline: Self.at(500))
        _ = pipeline.submit("fast", byteCount: 1, deadline: Self.at(100))
        let next = pipeline.nextDeadline
        #expect(next == Self.at(100))
        guard case .close(let error) = pipeline.hitDeadline(now: Self.at(100)) else {
            Issue.record("still open")
            return
        }
        #expect(error.code == .timedOut)
        let told = pipeline.closed()
        #expect(told == ["slow", "fast"])
        let late = Self.refusal(pipeline.submit("late", byteCount: 1, deadline: Self.at(900)))
        #expect(late == .notConnected)
    }

    @Test("an answered command's deadline is forgotten")
    func answered() {
        var pipeline = Self.pipeline()
        _ = pipeline.submit("a", byteCount: 1, deadline: Self.at(100))
        pipeline.bytesReceived(now: Self.at(50))
        _ = pipeline.replyReceived()
        guard case .wait(let until) = pipeline.hitDeadline(now: Self.at(100)) else {
            Issue.record("not waiting")
            return
        }
        #expect(until == Self.at(10_050))
    }

    @Test("a silent connection is asked once, and closed without an answer")
    func keepAlive() {
        var pipeline = Self.pipeline()
        guard case .ping(let until) = pipeline.hitDeadline(now: Self.at(10_000)) else {
            Issue.record("not asked")
            return
        }
        #expect(until == Self.at(11_000))
        guard case .close = pipeline.hitDeadline(now: until) else {
            Issue.record("still open")
            return
        }
        let told = pipeline.closed()
        #expect(told.isEmpty)
    }

    @Test("the answer to our own question is nobody's")
    func pong() {
        var pipeline = Self.pipeline()
        _ = pipeline.hitDeadline(now: Self.at(10_000))
        _ = pipeline.submit("a", byteCount: 1, deadline: Self.at(20_000))
        guard case .drop = pipeline.replyReceived() else {
            Issue.record("somebody's")
            return
        }
        let first = Self.completed(pipeline.replyReceived())
        #expect(first == "a")
    }
}
