import ApusMessages
import ApusRedis
import Logging
import Testing

@testable import ApusDispatcher
@testable import ApusStreams

@Suite struct OutcomeWriterTests {
    private static let writer = OutcomeWriter(logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })

    private static func disposition(
        _ error: any Error,
        failures: Int = 1,
        refusals: Int = 0,
    ) -> OutcomeWriter.Disposition {
        OutcomeWriter.disposition(of: error, failures: failures, refusals: refusals)
    }

    @Test(arguments: [
        RedisError.Code.disconnected, .timedOut, .notConnected, .loading, .readOnly, .busy, .outOfMemory, .noPermission,
        .noGroup, .functionMissing, .serverChanged, .unexpectedReply, .protocolViolation, .full, .closed,
    ])
    func `A write waits for the end of an outage, however long it lasts`(code: RedisError.Code) {
        let error = RedisError(code, "words")
        #expect(Self.disposition(error) == .again(after: .milliseconds(50)))
        #expect(Self.disposition(error, failures: 100_000) == .again(after: OutcomeWriter.waitMax))
    }

    @Test func `A write that Redis refuses for its own reasons is repeated a limited number of times`() {
        let error = RedisError(.wrongType, "WRONGTYPE")
        let most = OutcomeWriter.refusalsMax
        #expect(Self.disposition(error, failures: most, refusals: most) == .again(after: OutcomeWriter.waitMax))
        #expect(Self.disposition(error, failures: most + 1, refusals: most + 1) == .giveUp)
    }

    @Test func `A write that can never succeed is given up at once`() {
        #expect(Self.disposition(StreamError.taken(send: "s"), refusals: 1) == .giveUp)
        #expect(Self.disposition(CancellationError(), refusals: 1) == .giveUp)
    }

    @Test func `A write is performed once more after each failure`() async throws {
        var tries = 0
        let written = try await Self.writer.write {
            tries += 1
            guard tries == 4 else { throw RedisError(.outOfMemory, "OOM") }
            return "written"
        }
        #expect(written == "written" && tries == 4)
    }
}
