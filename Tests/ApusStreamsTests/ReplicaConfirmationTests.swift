import ApusCore
import ApusMessages
import ApusRedis
import ApusTestKit
import Testing

@testable import ApusStreams

/// Tests that what must survive the death of a primary is on a replica before it counts.
@Suite(.serialized) struct ReplicaConfirmationTests {
    private static func with(
        _ body: (_ fixture: StreamsFixture, _ replica: RedisServer) async throws -> Void
    ) async throws {
        try await RedisServer.with(RedisServer.Options(isCluster: false)) { primary in
            try await StreamsFixture.with(primary) { fixture in
                try await RedisServer.with(RedisServer.Options(isCluster: false, primaryPort: primary.port)) {
                    replica in
                    try await eventually("the replica follows") {
                        try await primary.command("INFO", "replication").namesOnlineReplica
                    }
                    try await body(fixture, replica)
                }
            }
        }
    }

    /// A send of which a unit is in hand.
    private static func unit(_ fixture: StreamsFixture) async throws -> (StreamKeys, StreamEntry) {
        let id = try #require(
            (0..<64).map { "s\($0)" }.first { fixture.streams.home(app: "shop", $0) == fixture.keys }
        )
        let (keys, command) = (fixture.keys, fixture.command(id: id))
        let entry = StreamEntry(stream: keys.mailbox(.bulk), id: "1-1", message: try command.encode())
        _ = try await fixture.streams.mailboxes.accept(
            command,
            identity: SendIdentity(of: command, source: entry.source),
            routes: [RouteNumber(1)],
            from: entry,
            by: fixture.consumer("me"),
            due: nil,
        )
        let unit = WorkUnit(
            send: SendKey(app: "shop", id: id),
            route: RouteNumber(1),
            recipients: .addresses([0, 1, 2])
        )
        let stream = keys.work(RouteNumber(1), .bulk)
        return (keys, try await fixture.deliver(try unit.encode(), to: stream, consumer: fixture.consumer("me")))
    }

    @Test func `Pausing and cancelling wait for a replica, and fail when it is silent`() async throws {
        try await Self.with { fixture, replica in
            let (keys, entry) = try await Self.unit(fixture)
            let send = try WorkUnit.decode(entry.message).send
            guard case .ok = try await fixture.streams.control.apply(.pause, to: send, at: keys) else {
                throw Unexpected("not paused")
            }
            let state = try await replica.command("HGET", .text(keys.send(send)), "state").root.string
            #expect(state == "paused")
            replica.suspend()
            let error = await #expect(throws: StreamError.self) {
                try await fixture.streams.control.apply(.cancel, to: send, at: keys)
            }
            #expect(error?.description.contains("no replica of Redis has confirmed it") == true)
            // It stands all the same.
            let ledger = try await fixture.streams.outcomes.ledger(app: send.app, send: send.id)
            #expect(ledger?.state == .cancelled)
            replica.resume()
            try await eventually("asking again is confirmed") {
                guard case .ok? = try? await fixture.streams.control.apply(.cancel, to: send, at: keys) else {
                    return false
                }
                return true
            }
        }
    }

    @Test func `Pausing a route waits for a replica, and fails when it is silent`() async throws {
        try await Self.with { fixture, replica in
            let (routes, route) = (fixture.streams.routes, RouteNumber(1))
            try await routes.control(route, .rate(5))
            let key = fixture.streams.keys(ofRoute: route).route(route)
            #expect(try await replica.command("EXISTS", .text(key)).root.integer == 1)
            replica.suspend()
            let error = await #expect(throws: StreamError.self) { try await routes.control(route, .pause) }
            #expect(error?.description.contains("no replica of Redis has confirmed it") == true)
            // It stands all the same.
            #expect(try await routes.state(of: route).stop == .byOperator)
            replica.resume()
            try await eventually("asking again is confirmed") { (try? await routes.control(route, .pause)) != nil }
        }
    }

    @Test func `Marks of an at-most-once send are on a replica before any request`() async throws {
        try await Self.with { fixture, replica in
            let (keys, entry) = try await Self.unit(fixture)
            let send = try WorkUnit.decode(entry.message).send
            // A replica that runs confirms in milliseconds on an idle machine, and in seconds on a busy one.
            let patient = ReplicaConfirmation(fixture.client, patience: .seconds(30))
            let impatient = ReplicaConfirmation(fixture.client, patience: .milliseconds(200))
            let streams = fixture.streams.confirmed(by: patient)
            func report(_ sequence: UInt32, by streams: SendStreams) async throws -> Work.Verdict {
                try await streams.work.record(
                    entry,
                    of: send,
                    by: fixture.consumer("me"),
                    tag: keys.tag,
                    journal: UnitJournal(sequence: sequence, bitmap: [0, 0b111]),
                    next: .continue,
                )
            }
            #expect(try await report(1, by: streams).state == .running)
            let journals = try await replica.command("HLEN", .text(keys.journal)).root.integer
            #expect(journals == 1)
            replica.suspend()
            let error = await #expect(throws: RedisError.self) {
                try await report(2, by: fixture.streams.confirmed(by: impatient))
            }
            #expect(error?.isOutcomeUnknown == true, "so its driver repeats it")
            // Others do not wait.
            #expect(try await report(3, by: fixture.streams).state == .running)
            replica.resume()
            try await eventually("the same report again is confirmed") {
                (try? await report(3, by: streams))?.state == .running
            }
            await patient.close()
            await impatient.close()
        }
    }

    @Test func `A server without replicas has nothing to wait for`() async throws {
        try await StreamsFixture.with { fixture in
            let confirmation = ReplicaConfirmation(fixture.client)
            let outcome = try await confirmation.confirm(fixture.keys.tag, server: nil)
            #expect(outcome == .alone)
            await confirmation.close()
        }
    }
}
