import ApusCore
import ApusMessages
import ApusRedis
import Testing

@testable import ApusStreams

/// Direct sends of which something is left, and others that come by the same id.
@Suite struct DirectKeptTests {
    private static let first = "{q1}in:express/1-1"
    private static let second = "{q1}in:express/2-2"

    private static func admit(
        _ command: SendCommand,
        _ origin: String,
        _ fixture: StreamsFixture
    ) async throws -> Mailboxes.Admission {
        try await fixture.admit(command, origin)
    }

    @discardableResult
    private static func persist(
        _ command: SendCommand,
        _ origin: String,
        _ fixture: StreamsFixture
    ) async throws -> Bool {
        try await fixture.streams.mailboxes.persist(
            command,
            identity: SendIdentity(of: command, source: origin),
            origin: origin,
            recipients: 1,
            batches: [],
            retries: [],
            now: UnixMilliseconds(1),
        )
    }

    /// The window of idempotency has passed; the ledger is still there.
    private static func forgetKeys(_ fixture: StreamsFixture) async throws {
        for shard in 0..<2 {
            let tag = fixture.streams.keys(shard: shard).tag
            let keys = try await fixture.client.send(RedisCommand("KEYS", .text(tag.key("idem:*"))), on: tag).root
            for key in keys.children.compactMap(\.string) {
                _ = try await fixture.client.send(RedisCommand("DEL", .text(key)), on: tag)
            }
        }
    }

    @Test func `A repeated entry whose send is stored is answered so, with a key and without`() async throws {
        try await StreamsFixture.with { fixture in
            let commands = [fixture.command(id: "code"), fixture.command(key: "login"), fixture.command()]
            for (number, command) in commands.enumerated() {
                let origin = "{q1}in:express/\(number)-1"
                #expect(try await Self.admit(command, origin, fixture) == .new)
                #expect(try await Self.persist(command, origin, fixture))
                #expect(try await Self.admit(command, origin, fixture) == .known)
                #expect(try await !Self.persist(command, origin, fixture))
                try await Self.forgetKeys(fixture)
                #expect(try await Self.admit(command, origin, fixture) == .known)
            }
        }
    }

    @Test func `An id whose ledger still exists is in use, though its key is forgotten`() async throws {
        try await StreamsFixture.with { fixture in
            let command = fixture.command(id: "code")
            #expect(try await Self.admit(command, Self.first, fixture) == .new)
            try await Self.persist(command, Self.first, fixture)
            try await Self.forgetKeys(fixture)
            #expect(try await Self.admit(command, Self.second, fixture) == .duplicate(send: "code"))
            let other = fixture.command(id: "code", title: "Another")
            #expect(try await Self.admit(other, Self.second, fixture) == .conflict(send: "code"))
            // Nor does asking take the key.
            #expect(try await Self.admit(command, Self.first, fixture) == .known)
            await #expect(throws: SendNotKeptError(admission: .duplicate(send: "code"))) {
                try await Self.persist(command, Self.second, fixture)
            }
            await #expect(throws: SendNotKeptError(admission: .conflict(send: "code"))) {
                try await Self.persist(other, Self.second, fixture)
            }
            let ledger = try await fixture.streams.outcomes.ledger(app: "shop", send: "code")
            #expect(ledger?.planned == 1)
        }
    }

    /// Two apps' commands of the same id, whose home is the same shard.
    private static func twins(_ fixture: StreamsFixture) throws -> (ours: SendCommand, theirs: SendCommand) {
        let streams = fixture.streams
        let id = try #require(
            (0..<100).map { "daily-\($0)" }.first { streams.home(app: "shop", $0) == streams.home(app: "news", $0) }
        )
        let ours = fixture.command(id: id)
        var theirs = ours
        theirs.app = "news"
        return (ours, theirs)
    }

    @Test func `Direct sends of two apps by the same id in the same shard are two, each with its own ledger`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let (ours, theirs) = try Self.twins(fixture)
            #expect(try await Self.persist(ours, Self.first, fixture))
            #expect(try await Self.admit(theirs, Self.second, fixture) == .new)
            #expect(try await Self.persist(theirs, Self.second, fixture))
            #expect(try await Self.admit(ours, Self.first, fixture) == .known)
            #expect(try await Self.admit(theirs, Self.second, fixture) == .known)
            for command in [ours, theirs] {
                let ledger = try await fixture.streams.outcomes.ledger(app: command.app, send: command.id)
                #expect(ledger?.app == command.app && ledger?.planned == 1)
            }
        }
    }

    @Test func `Of two apps' sends by the same id in the same shard, both are planned and one is cancelled`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let (streams, me) = (fixture.streams, fixture.consumer("me"))
            let (ours, theirs) = try Self.twins(fixture)
            let keys = streams.home(app: ours.app, ours.id)
            let reader = StreamReader(client: fixture.client, tag: keys.tag, consumer: me)
            let (mailbox, plan) = (keys.mailbox(.bulk), keys.plan(RouteNumber(7)))
            try await reader.ensure([mailbox, plan])
            for command in [ours, theirs] {
                guard case .new(command.id, _) = try await streams.mailboxes.publish(command, lane: .bulk) else {
                    throw Unexpected("not new")
                }
            }
            for entry in try await reader.read(mailbox, count: 10) {
                let command = try SendCommand.decode(entry.message)
                let identity = SendIdentity(of: command, source: entry.source)
                let result = try await streams.mailboxes.accept(
                    command,
                    identity: identity,
                    routes: [RouteNumber(7)],
                    from: entry,
                    by: me,
                    due: nil
                )
                #expect(result.admission == .new)
            }
            let plans = try await reader.read(plan, count: 10).map { String(decoding: $0.message, as: UTF8.self) }
            #expect(plans == ["shop/\(ours.id)", "news/\(ours.id)"])
            let our = SendKey(app: "shop", id: ours.id)
            guard case .ok = try await streams.control.apply(.cancel, to: our, at: keys) else {
                throw Unexpected("not cancelled")
            }
            #expect(try await streams.outcomes.ledger(app: "shop", send: ours.id)?.state == .cancelled)
            #expect(try await streams.outcomes.ledger(app: "news", send: ours.id)?.state == .running)
            #expect(try await streams.mailboxes.command(of: our, tag: keys.tag) == ours)
            #expect(try await streams.mailboxes.command(of: SendKey(app: "news", id: ours.id), tag: keys.tag) == theirs)
        }
    }

    @Test func `A retry waits by Redis' clock, whatever the writer's says`() async throws {
        try await StreamsFixture.with { fixture in
            // A clock that is wrong by decades, either way.
            for (number, now) in [UnixMilliseconds(1_000), UnixMilliseconds(4_000_000_000_000)].enumerated() {
                let command = fixture.command(id: "code-\(number)")
                let identity = SendIdentity(of: command, source: Self.first)
                let keys = fixture.streams.home(app: command.app, identity.home)
                let send = SendKey(app: command.app, id: identity.send)
                let unit = WorkUnit(send: send, route: RouteNumber(1), recipients: .addresses([0]))
                let retries = [
                    UnitRetry(due: now.advanced(byMilliseconds: 60_000), id: "later-\(number)", unit: unit),
                    UnitRetry(due: UnixMilliseconds(0), id: "now-\(number)", unit: unit),
                ]
                _ = try await fixture.streams.mailboxes.persist(
                    command,
                    identity: identity,
                    origin: Self.first,
                    recipients: 2,
                    batches: [],
                    retries: retries,
                    now: now,
                )
                #expect(try await fixture.streams.work.moveDue(tag: keys.tag).moved == 1)
                let wait = try #require(try await fixture.streams.work.moveDue(tag: keys.tag).nextMilliseconds)
                #expect((1...60_000).contains(wait))
                _ = try await fixture.client.send(RedisCommand("DEL", .text(keys.due)), on: keys.tag)
            }
        }
    }
}
