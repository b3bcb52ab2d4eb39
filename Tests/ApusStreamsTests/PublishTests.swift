import ApusCore
import ApusMessages
import ApusRedis
import ApusStreams
import Testing

@Suite struct PublishTests {
    @Test func `The same key with the same body is one send, another body is a conflict`() async throws {
        try await StreamsFixture.with { fixture in
            let streams = fixture.streams
            let first = try await streams.publish(fixture.command(id: "a", key: "order-7"), lane: .bulk)
            guard case .new(let send, _) = first else { throw Unexpected(first) }
            #expect(send == "a")
            #expect(
                try await streams.publish(fixture.command(id: "b", key: "order-7"), lane: .bulk)
                    == .duplicate(send: "a")
            )
            let other = fixture.command(id: "c", key: "order-7", title: "Other")
            #expect(try await streams.publish(other, lane: .bulk) == .conflict(send: "a"))
            let home = streams.home(app: "shop", "order-7")
            #expect(
                try await fixture.client.send(.init("XLEN", .text(home.mailbox(.bulk))), on: home.tag).root.integer == 1
            )
        }
    }

    @Test func `A full mailbox says so and takes nothing`() async throws {
        try await StreamsFixture.with { fixture in
            let streams = fixture.streams
            for index in 0..<3 {
                let id = "same-home"
                let command = fixture.command(id: id, key: "k", title: "\(index)")
                _ = try await streams.publish(command, lane: .bulk, mailboxEntriesMax: 1)
            }
            let key = "k"
            let next = SendIdentity(of: fixture.command(id: "x", key: key), origin: "")
            #expect(next.home == key)
            // The mailbox holds one; a new send with the same home finds it full.
            let result = try await streams.publish(fixture.command(id: "k"), lane: .bulk, mailboxEntriesMax: 1)
            #expect(result == .full(entries: 1))
        }
    }

    @Test func `An accepted command is kept once, whoever asks again`() async throws {
        try await StreamsFixture.with { fixture in
            let streams = fixture.streams
            let me = fixture.consumer("one")
            let command = fixture.command(id: "send-1")
            let home = streams.home(app: "shop", "send-1")
            let entry = StreamEntry(stream: home.mailbox(.bulk), id: "1-1", message: try command.encode())
            let identity = SendIdentity(of: command, origin: entry.origin)
            let first = try await streams.accept(command, identity: identity, from: entry, by: me, due: nil)
            #expect(first.admission == .new)
            let again = try await streams.accept(command, identity: identity, from: entry, by: me, due: nil)
            #expect(again.admission == .again)
            let elsewhere = StreamEntry(stream: home.mailbox(.express), id: "9-9", message: entry.message)
            let twin = SendIdentity(of: command, origin: elsewhere.origin)
            let duplicate = try await streams.accept(command, identity: twin, from: elsewhere, by: me, due: nil)
            #expect(duplicate.admission == .duplicate(send: "send-1"))
            let changed = fixture.command(id: "send-1", title: "Changed")
            let clash = try await streams.accept(
                changed,
                identity: SendIdentity(of: changed, origin: elsewhere.origin),
                from: elsewhere,
                by: me,
                due: nil,
            )
            #expect(clash.admission == .conflict(send: "send-1"))
            #expect(try await fixture.client.send(.init("XLEN", .text(home.plan)), on: home.tag).root.integer == 1)
            #expect(try await streams.body(of: "send-1", tag: home.tag) == command)
            let ledger = try await streams.ledger(app: "shop", send: "send-1")
            #expect(ledger?.state == .running && ledger?.isPlanning == true && ledger?.planned == 0)
        }
    }

    @Test func `A send with a later time waits in due and then is planned`() async throws {
        try await StreamsFixture.with { fixture in
            let streams = fixture.streams
            let command = fixture.command(id: "later")
            let home = streams.home(app: "shop", "later")
            let entry = StreamEntry(stream: home.mailbox(.bulk), id: "1-1", message: try command.encode())
            let identity = SendIdentity(of: command, origin: entry.origin)
            let time = try await fixture.client.send(.init("TIME"), on: home.tag).root[0].integer ?? 0
            let due = UnixMilliseconds(time * 1_000 + 1_500)
            _ = try await streams.accept(
                command,
                identity: identity,
                from: entry,
                by: fixture.consumer("one"),
                due: due
            )
            let early = try await streams.moveDue(tag: home.tag)
            #expect(early.moved == 0)
            let wait = try #require(early.nextMilliseconds)
            #expect(wait > 0 && wait <= 2_500)
            try await Task.sleep(for: .milliseconds(wait + 20))
            #expect(try await streams.moveDue(tag: home.tag).moved == 1)
            #expect(try await fixture.client.send(.init("XLEN", .text(home.plan)), on: home.tag).root.integer == 1)
            #expect(try await streams.moveDue(tag: home.tag).nextMilliseconds == nil)
        }
    }

    @Test func `A direct send is admitted to one origin only`() async throws {
        try await StreamsFixture.with { fixture in
            let command = fixture.command(id: "", key: "code-1")
            let identity = SendIdentity(of: command, origin: "{q1}in:express/1-1")
            let streams = fixture.streams
            var admissions: [SendStreams.Admission] = []
            for origin in ["{q1}in:express/1-1", "{q1}in:express/1-1", "{q9}in:express/2-2"] {
                admissions.append(try await streams.admit(app: "shop", identity: identity, origin: origin))
            }
            #expect(admissions == [.new, .new, .duplicate(send: identity.send)])
        }
    }
}

struct Unexpected: Error {
    let what: String

    init(_ what: Any) { self.what = "\(what)" }
}
