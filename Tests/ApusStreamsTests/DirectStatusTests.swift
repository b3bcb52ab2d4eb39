import ApusCore
import ApusMessages
import ApusRedis
import Testing

@testable import ApusStreams

/// Tests the status of direct sends, which is in the receipts of their homes.
@Suite struct DirectStatusTests {
    /// Publishes a direct send, lets others write that many receipts of so many bytes, and then writes its own.
    private static func phase(
        behind count: Int,
        ofBytes size: Int,
        _ fixture: StreamsFixture,
    ) async throws -> SendStatus.Phase? {
        let command = fixture.command(id: "s\(size)")
        let home = fixture.streams.home(app: command.app, command.id)
        _ = try await fixture.client.send(RedisCommand("DEL", .text(home.receipts)), on: home.tag)
        guard case .new = try await fixture.streams.mailboxes.publish(command, lane: .express) else {
            throw Unexpected("not new")
        }
        let filler = [UInt8](repeating: 0xff, count: size)
        for _ in 0..<count {
            let add = RedisCommand("XADD", .text(home.receipts), "*", "m", .bytes(filler))
            _ = try await fixture.client.send(add, on: home.tag)
        }
        let receipt = SendReceipt(id: "final:\(command.id)", send: command.id, app: command.app, kind: .final)
        #expect(try await fixture.streams.outcomes.write(receipt, replyTo: "", tag: home.tag) == nil)
        return try await fixture.streams.outcomes.status(
            app: AppID(command.app),
            send: SendID(command.id),
            now: UnixMilliseconds(1),
        )?.phase
    }

    @Test func `A receipt is found on a later page, unless too many bytes of others lie before it`() async throws {
        let count = StreamLimits.statusReceiptsPerRead
        let size = StreamLimits.statusReceiptBytesMax / count
        try await StreamsFixture.with { fixture in
            let phases = [
                try await Self.phase(behind: 2 * count, ofBytes: 1, fixture),
                try await Self.phase(behind: count, ofBytes: size - 100, fixture),
                try await Self.phase(behind: count, ofBytes: size + 1, fixture),
                // It is the last one of what is read, whatever its bytes.
                try await Self.phase(behind: count - 1, ofBytes: size + 2, fixture),
            ]
            #expect(phases == [.done, .done, .waiting, .done])
        }
    }

    @Test func `Commands that came again under an id, the same and another, say nothing of the send that has it`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let command = fixture.command(id: "once")
            let home = fixture.streams.home(app: command.app, command.id)
            guard case .new = try await fixture.streams.mailboxes.publish(command, lane: .express) else {
                throw Unexpected("not new")
            }
            func phase(after receipt: SendReceipt) async throws -> SendStatus.Phase? {
                #expect(try await fixture.streams.outcomes.write(receipt, replyTo: "", tag: home.tag) == nil)
                return try await fixture.streams.outcomes.status(
                    app: AppID(command.app),
                    send: SendID(command.id),
                    now: UnixMilliseconds(1),
                )?.phase
            }
            #expect(try await phase(after: Self.refusal(of: "once", "duplicate", duplicateOf: "once")) == .waiting)
            #expect(try await phase(after: Self.refusal(of: "once", "conflict")) == .waiting)
            let end = SendReceipt(id: "final:shop/once", send: "once", app: "shop", kind: .final)
            #expect(try await phase(after: end) == .done)
        }
    }

    @Test func `A command whose key names a send of another id is refused`() throws {
        let refusal = Self.refusal(of: "again", "duplicate", duplicateOf: "once")
        let problem = try #require(refusal.problem)
        #expect(SendStatus(receipt: refusal)?.phase == .refused(problem))
    }

    private static func refusal(of send: String, _ code: String, duplicateOf earlier: String = "") -> SendReceipt {
        var receipt = SendReceipt(id: "\(code):shop/\(send)", send: send, app: "shop", kind: .refused)
        receipt.problem = Problem(code: code, field: "id", detail: "was used before")
        receipt.duplicateOf = earlier
        return receipt
    }

    @Test func `The receipts that are searched are whole pages`() {
        #expect(StreamLimits.statusReceiptsMax.isMultiple(of: StreamLimits.statusReceiptsPerRead))
    }
}
