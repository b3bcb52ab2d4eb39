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
        _ = try await Self.publish(command, fixture)
        let filler = [UInt8](repeating: 0xff, count: size)
        for _ in 0..<count {
            let add = RedisCommand("XADD", .text(home.receipts), "*", "m", .bytes(filler))
            _ = try await fixture.client.send(add, on: home.tag)
        }
        let receipt = SendReceipt(id: "final:\(command.id)", send: command.id, app: command.app, kind: .final)
        #expect(try await fixture.streams.outcomes.write(receipt, replyTo: "", tag: home.tag) == nil)
        return try await Self.phase(of: command, fixture)
    }

    private static func phase(of command: SendCommand, _ fixture: StreamsFixture) async throws -> SendStatus.Phase? {
        try await fixture.streams.outcomes.status(
            app: AppID(command.app),
            send: SendID(command.id),
            now: UnixMilliseconds(1),
        )?.phase
    }

    /// Publishes a direct send. Returns its home.
    private static func publish(_ command: SendCommand, _ fixture: StreamsFixture) async throws -> StreamKeys {
        guard case .new = try await fixture.streams.mailboxes.publish(command, lane: .express) else {
            throw Unexpected("not new")
        }
        return fixture.streams.home(app: command.app, command.id)
    }

    /// Ends a direct send as a dispatcher does.
    private static func finish(_ command: SendCommand, _ fixture: StreamsFixture) async throws {
        let (home, me) = (fixture.streams.home(app: command.app, command.id), fixture.consumer("me"))
        let reader = StreamReader(client: fixture.client, tag: home.tag, consumer: me)
        try await reader.ensure([home.mailbox(.express)])
        let entry = try #require(try await reader.read(home.mailbox(.express), count: 1).first)
        let isFinished = try await fixture.streams.mailboxes.finish(
            entry,
            of: command,
            identity: SendIdentity(of: command, source: entry.source),
            by: me,
            tag: home.tag,
            home: home.tag,
            recipients: 1,
            batches: [Self.batch(of: command)],
        )
        #expect(isFinished)
    }

    private static func batch(of command: SendCommand) -> OutcomeBatch {
        var batch = OutcomeBatch(send: command.id, app: command.app, route: RouteNumber(1), provider: .apns)
        batch.counts = [OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 1)]
        (batch.receiptLevel, batch.replyTo) = (.summary, command.replyTo)
        return batch
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
            let home = try await Self.publish(command, fixture)
            func phase(after receipt: SendReceipt) async throws -> SendStatus.Phase? {
                #expect(try await fixture.streams.outcomes.write(receipt, replyTo: "", tag: home.tag) == nil)
                return try await Self.phase(of: command, fixture)
            }
            #expect(try await phase(after: Self.refusal(of: "once", "duplicate", duplicateOf: "once")) == .waiting)
            #expect(try await phase(after: Self.refusal(of: "once", "conflict")) == .waiting)
            let end = SendReceipt(id: "final:shop/once", send: "once", app: "shop", kind: .final)
            #expect(try await phase(after: end) == .done)
        }
    }

    @Test func `A command whose key names a send of another id, or another command, is refused`() async throws {
        try await StreamsFixture.with { fixture in
            for (id, code, earlier) in [("again", "duplicate", "once"), ("other", "conflict", "")] {
                let command = fixture.command(id: id)
                let home = try await Self.publish(command, fixture)
                let refusal = Self.refusal(of: id, code, field: "idempotency_key", duplicateOf: earlier)
                let problem = try #require(refusal.problem)
                try await fixture.streams.outcomes.write(refusal, replyTo: "", tag: home.tag)
                #expect(try await Self.phase(of: command, fixture) == .refused(problem))
            }
        }
    }

    private static func refusal(
        of send: String,
        _ code: String,
        field: String = "id",
        duplicateOf earlier: String = "",
    ) -> SendReceipt {
        var receipt = SendReceipt(id: "\(code):shop/\(send)", send: send, app: "shop", kind: .refused)
        receipt.problem = Problem(code: code, field: field, detail: "was used before")
        receipt.duplicateOf = earlier
        return receipt
    }

    @Test func `A send whose receipt goes elsewhere is waiting until its outcome is counted, and then unknown`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            var command = fixture.command(id: "elsewhere")
            command.replyTo = "apus:receipts:shop"
            let home = try await Self.publish(command, fixture)
            #expect(try await Self.phase(of: command, fixture) == .waiting)
            try await Self.finish(command, fixture)
            // Feedback may have a receipt to write.
            #expect(try await Self.phase(of: command, fixture) == .waiting)
            let count = RedisCommand("XTRIM", .text(home.outcomes), "MAXLEN", 0)
            _ = try await fixture.client.send(count, on: home.tag)
            #expect(try await Self.phase(of: command, fixture) == nil)
        }
    }

    @Test func `Outcomes of others keep no send waiting, unless too many wait to be searched for its own`() async throws
    {
        try await StreamsFixture.with { fixture in
            var command = fixture.command(id: "counted")
            command.replyTo = "apus:receipts:shop"
            let home = try await Self.publish(command, fixture)
            try await Self.finish(command, fixture)
            let other = try Self.batch(of: fixture.command(id: "other")).encode()
            func add(_ count: Int) async throws {
                let add = RedisCommand("XADD", .text(home.outcomes), "*", "m", .bytes(other))
                for _ in 0..<count { _ = try await fixture.client.send(add, on: home.tag) }
            }
            try await add(StreamLimits.statusOutcomesMax - 2)
            #expect(try await Self.phase(of: command, fixture) == .waiting)
            // Its own is the oldest of them.
            let trim = RedisCommand(
                "XTRIM",
                .text(home.outcomes),
                "MAXLEN",
                .integer(StreamLimits.statusOutcomesMax - 2)
            )
            _ = try await fixture.client.send(trim, on: home.tag)
            #expect(try await Self.phase(of: command, fixture) == nil)
            try await add(2)
            #expect(try await Self.phase(of: command, fixture) == .waiting)
        }
    }

    @Test func `A receipt is found when the id of its command is forgotten, the newest of several`() async throws {
        try await StreamsFixture.with { fixture in
            let command = fixture.command(id: "old")
            let home = try await Self.publish(command, fixture)
            try await Self.finish(command, fixture)
            _ = try await fixture.client.send(RedisCommand("DEL", .text(home.idempotency)), on: home.tag)
            #expect(try await Self.phase(of: command, fixture) == .done)
            // Its id was used again, and its command refused.
            let refusal = Self.refusal(of: "old", "no_recipients")
            let problem = try #require(refusal.problem)
            try await fixture.streams.outcomes.write(refusal, replyTo: "", tag: home.tag)
            #expect(try await Self.phase(of: command, fixture) == .refused(problem))
            #expect(try await Self.phase(of: fixture.command(id: "nobody"), fixture) == nil)
        }
    }

    @Test func `A receipt is searched among fewer, the newest, when the id of its command is forgotten`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let command = fixture.command(id: "old")
            let home = try await Self.publish(command, fixture)
            try await Self.finish(command, fixture)
            let add = RedisCommand("XADD", .text(home.receipts), "*", "m", "")
            for _ in 1..<StreamLimits.statusNewestReceiptsMax {
                _ = try await fixture.client.send(add, on: home.tag)
            }
            let rename = RedisCommand("RENAME", .text(home.idempotency), .text("\(home.idempotency)-away"))
            _ = try await fixture.client.send(rename, on: home.tag)
            #expect(try await Self.phase(of: command, fixture) == .done)
            _ = try await fixture.client.send(add, on: home.tag)
            #expect(try await Self.phase(of: command, fixture) == nil)
            let back = RedisCommand("RENAME", .text("\(home.idempotency)-away"), .text(home.idempotency))
            _ = try await fixture.client.send(back, on: home.tag)
            #expect(try await Self.phase(of: command, fixture) == .done)
        }
    }

    @Test func `A receipt is found although the clock of Redis has gone back since its command was written`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let command = fixture.command(id: "back")
            try await Self.moveAhead(command, fixture)
            _ = try await Self.publish(command, fixture)
            #expect(try await Self.phase(of: command, fixture) == .waiting)
            try await Self.finish(command, fixture)
            #expect(try await Self.phase(of: command, fixture) == .done)
        }
    }

    /// Writes and deletes an entry of a command's mailbox as Redis does whose clock is half a minute ahead, and then goes back.
    private static func moveAhead(_ command: SendCommand, _ fixture: StreamsFixture) async throws {
        let home = fixture.streams.home(app: command.app, command.id)
        let last = "\(SystemClock().now().value + 30_000)-1"
        let mailbox = RedisArgument.text(home.mailbox(.express))
        for change in [
            RedisCommand("XADD", mailbox, .text(last), "m", ""), RedisCommand("XDEL", mailbox, .text(last)),
        ] {
            _ = try await fixture.client.send(change, on: home.tag)
        }
    }

    @Test func `The refusal of an earlier command is not taken for the state of a new one of its id`() async throws {
        try await StreamsFixture.with { fixture in
            var command = fixture.command(id: "again")
            command.replyTo = "apus:receipts:shop"
            try await Self.moveAhead(command, fixture)
            let home = try await Self.publish(command, fixture)
            var refusal = Self.refusal(of: "again", "too_much_open", field: "app")
            refusal.id = "refused:\(home.mailbox(.express))/1-1#0123456789abcdef"
            try await fixture.streams.outcomes.write(refusal, replyTo: "", tag: home.tag)
            // Receipts from before the command are read once it has left its mailbox.
            let read = RedisCommand("XRANGE", .text(home.mailbox(.express)), "-", "+")
            let entry = try await fixture.client.send(read, on: home.tag).root[0][0].text()
            try await Self.finish(command, fixture)
            #expect(try await Self.phase(of: command, fixture) == .waiting)
            let own = StreamEntry(stream: home.mailbox(.express), id: entry, message: try command.encode())
            refusal.id = "refused:\(own.source)"
            let problem = try #require(refusal.problem)
            try await fixture.streams.outcomes.write(refusal, replyTo: "", tag: home.tag)
            #expect(try await Self.phase(of: command, fixture) == .refused(problem))
        }
    }

    @Test func `A command without a time has a state like any other`() async throws {
        try await StreamsFixture.with { fixture in
            let command = fixture.command(id: "timeless")
            let home = fixture.streams.home(app: command.app, command.id)
            #expect(try await fixture.admit(command, "\(home.mailbox(.express))/0-1") == .new)
            #expect(try await Self.phase(of: command, fixture) == nil)
            let end = SendReceipt(id: "final:shop/timeless", send: command.id, app: command.app, kind: .final)
            try await fixture.streams.outcomes.write(end, replyTo: "", tag: home.tag)
            #expect(try await Self.phase(of: command, fixture) == .done)
        }
    }

    @Test func `The outcomes that are searched have no more bytes than the receipts`() {
        let bytes = StreamLimits.statusOutcomesMax * Limits.outcomeBatchBytesMax
        #expect(bytes <= StreamLimits.statusReceiptBytesMax)
    }

    @Test func `The receipts that are searched are whole pages`() {
        for count in [StreamLimits.statusReceiptsMax, StreamLimits.statusNewestReceiptsMax] {
            #expect(count.isMultiple(of: StreamLimits.statusReceiptsPerRead))
        }
    }
}
