import ApusMessages
import ApusRedis
import Logging
import Testing

@testable import ApusDispatcher
@testable import ApusStreams

@Suite struct OutcomeWriterTests {
    private static let writer = OutcomeWriter(logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })

    private static func wait(_ error: any Error, failures: Int = 1, refusals: Int = 0) -> Duration? {
        OutcomeWriter.wait(after: Disposition(of: error), failures: failures, refusals: refusals)
    }

    @Test(arguments: [
        RedisError.Code.disconnected, .timedOut, .notConnected, .loading, .readOnly, .busy, .outOfMemory, .noPermission,
        .noGroup, .functionMissing, .serverChanged, .unexpectedReply, .protocolViolation, .full,
    ])
    func `A write waits for the end of an outage, however long it lasts`(code: RedisError.Code) {
        let error = RedisError(code, "words")
        #expect(Self.wait(error) == .milliseconds(50))
        #expect(Self.wait(error, failures: 100_000) == OutcomeWriter.waitMax)
    }

    @Test func `A write that Redis refuses for its own reasons is repeated a limited number of times`() {
        let error = RedisError(.wrongType, "WRONGTYPE")
        let most = OutcomeWriter.refusalsMax
        #expect(Self.wait(error, failures: most, refusals: most) == OutcomeWriter.waitMax)
        #expect(Self.wait(error, failures: most + 1, refusals: most + 1) == nil)
    }

    @Test func `A write may have a lower limit of refusals`() async throws {
        var tries = 0
        await #expect(throws: RedisError.self) {
            try await Self.writer.write(refusalsMax: 0) {
                tries += 1
                throw RedisError(tries == 1 ? .loading : .wrongType, "words")
            }
        }
        #expect(tries == 2)
    }

    @Test func `A write that can never succeed is given up at once`() {
        let tooLarge = MessageError(.limitExceeded, field: "recipients", "must be fewer")
        #expect(Self.wait(tooLarge, refusals: 1) == nil)
        #expect(Self.wait(RedisError(.tooLarge, "of 9 MiB"), refusals: 1) == nil)
        #expect(Self.wait(SendNotKeptError(admission: .duplicate(send: "s")), refusals: 1) == nil)
        #expect(Self.wait(CancellationError(), refusals: 1) == nil)
        // Its owner has closed the client, and nobody will open it again.
        #expect(Self.wait(RedisError(.closed, "")) == nil)
    }

    @Test func `A write whose answer this version does not know is repeated until a new one may know it`() {
        let error = StreamError.unexpected(function: "apus2_record_progress", answer: "later")
        #expect(Self.wait(error, failures: 100_000) == OutcomeWriter.waitMax)
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
