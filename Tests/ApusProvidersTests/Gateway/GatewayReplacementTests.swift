import ApusAPNs
import ApusCore
import ApusHTTP2
import ApusProviders
import ApusTLS
import NIOCore
import Synchronization
import Testing

/// Connections that are of no more use, whoever says so: another one carries what comes next.
@Suite(.timeLimit(.minutes(2))) struct GatewayReplacementTests {
    /// Records the connections whose requests were accepted.
    private final class Carriers: Sendable {
        let numbers = Mutex(Set<Int>())
        func add(_ number: Int) { self.numbers.withLock { _ = $0.insert(number) } }
        var all: Set<Int> { self.numbers.withLock { $0 } }
    }

    /// A key whose token is old enough that another may be signed.
    private static func agedKey() throws -> (key: APNsProviderKey, token: String) {
        let key = try APNsProviderKey(keyID: "ABC123DEFG", teamID: "DEF123GHIJ", key: .generate(.p256))
        return (key, try key.sign(issuedAt: TestClock().now().advanced(byMilliseconds: -1_300_000)).text)
    }

    private static let expired = #"{"reason":"ExpiredProviderToken"}"#

    @Test(
        "D9 D13 D26 D28 after an answer that means the connection, another one carries the next request",
        arguments: [
            (400, "IdleTimeout"), (503, "Shutdown"), (403, "UnrelatedKeyIdInToken"),
            (429, "TooManyProviderTokenUpdates"),
        ]
    )
    func newConnection(status: Int, word: String) async throws {
        let carriers = Carriers()
        let provider = try await FakeProvider.start { connection, request in
            // The first two, of express and bulk, say so to each of their requests.
            guard connection.number >= 2 else {
                return connection.respond(request, status, "{\"reason\":\"\(word)\"}")
            }
            carriers.add(connection.number)
            connection.respond(request, 200)
        }
        let credential = try FixedCredential()
        let gateway = try await TestGateway.start(provider, credential: credential, total: 40)
        try await gateway.finished.get()
        let refused = try await gateway.look { traffic in
            #expect(traffic.isExact)
            return 40 - traffic.count(.accepted)
        }
        // Each of the two is asked once: never again after it said so.
        #expect((1...2).contains(refused))
        // Only of these words the credential hears, and goes on as it is.
        #expect(credential.renewalsTooMany.count == (word == "TooManyProviderTokenUpdates" ? refused : 0))
        #expect(credential.rejections.count == 0)
        #expect(!carriers.all.isEmpty)
        let asked = try await provider.look { $0.prefix(2).map(\.requests) }
        #expect(asked.allSatisfy { $0 <= 1 })
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("connections that allow no requests any more are replaced by new ones, which carry what waits")
    func forbiddenStreams() async throws {
        let carriers = Carriers()
        let provider = try await FakeProvider.start { connection, request in
            connection.respond(request, 200)
            // The first two, of express and bulk, allow one request and then none.
            guard connection.number < 2 else { return carriers.add(connection.number) }
            connection.handler?.updateSettings(maxConcurrentStreams: 0)
        }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 40) {
            $0.streamsForbiddenMax = .milliseconds(200)
            $0.housekeeping = .milliseconds(20)
        }
        try await gateway.finished.get()
        try await gateway.look { traffic in #expect(traffic.count(.accepted) == 40 && traffic.isExact) }
        #expect(!carriers.all.isEmpty)
        let forbade = try await provider.look { $0.prefix(2).count { $0.requests > 0 } }
        #expect(forbade >= 1)
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("a topic that is not ours costs an old connection, and a new one only the request")
    func mapping() async throws {
        for (age, isReplaced) in [(TimeAmount.nanoseconds(0), true), (.hours(1), false)] {
            let provider = try await FakeProvider.start { connection, request in
                connection.respond(request, 400, #"{"reason":"TopicDisallowed"}"#)
            }
            let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 6) {
                $0.mappingAge = age
            }
            try await gateway.finished.get()
            try await gateway.look { traffic in
                #expect(traffic.count(.misconfigured(.subroute)) == 6 && traffic.isExact)
                #expect((traffic.gateway.status.counts.handshakes > 2) == isReplaced)
            }
            try await gateway.drain()
            try await provider.stop()
        }
    }

    @Test("GOAWAY about an expired token brings one new token, and all is sent again with it")
    func goAwayStale() async throws {
        let (key, old) = try Self.agedKey()
        let store = GatewayCredentialTests.Store(old)
        let seen = Mutex(Set<String>())
        let provider = try await FakeProvider.start { connection, request in
            let header = request.value(of: "authorization") ?? ""
            _ = seen.withLock { $0.insert(header) }
            guard header == "bearer \(old)" else { return connection.respond(request, 200) }
            connection.handler?.goAway(
                lastStreamID: 0,
                code: .noError,
                debug: Array(#"{"reason":"ExpiredProviderToken"}"#.utf8),
            )
        }
        let credential = APNsCredential(key: key, store: store, clock: TestClock(), logger: quiet)
        let gateway = try await TestGateway.start(provider, credential: credential, total: 100)
        try await gateway.finished.get()
        try await gateway.look { traffic in
            #expect(traffic.count(.accepted) == 100 && traffic.isExact)
            #expect(!traffic.gateway.status.isHeld)
        }
        #expect(store.writes.count == 1)
        #expect(seen.withLock { $0.count } == 2)
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("D26 after too many tokens the one at hand goes on, on another connection, and none is signed")
    func renewedTooOften() async throws {
        let (key, token) = try Self.agedKey()
        let store = GatewayCredentialTests.Store(token)
        let carriers = Carriers()
        let seen = Mutex(Set<String>())
        let provider = try await FakeProvider.start { connection, request in
            _ = seen.withLock { $0.insert(request.value(of: "authorization") ?? "") }
            guard connection.number >= 2 else {
                return connection.respond(request, 429, #"{"reason":"TooManyProviderTokenUpdates"}"#)
            }
            carriers.add(connection.number)
            connection.respond(request, 200)
        }
        let credential = APNsCredential(key: key, store: store, clock: TestClock(), logger: quiet)
        let gateway = try await TestGateway.start(provider, credential: credential, total: 40)
        try await gateway.finished.get()
        try await gateway.look { traffic in
            #expect((1...2).contains(traffic.count(.misconfigured(.renewedTooOften))))
            #expect(traffic.count(.accepted) + traffic.count(.misconfigured(.renewedTooOften)) == 40)
            #expect(traffic.isExact && !traffic.gateway.status.isHeld)
        }
        #expect(!carriers.all.isEmpty && store.writes.count == 0)
        #expect(seen.withLock { $0 } == ["bearer \(token)"])
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("D10 where a token was called expired the new one is never seen: it goes on another connection")
    func stale() async throws {
        let (key, old) = try Self.agedKey()
        let store = GatewayCredentialTests.Store(old)
        let carriers = Carriers()
        let wedged = Mutex(Set<Int>())
        let late = Tally()
        let provider = try await FakeProvider.start { connection, request in
            let isOld = request.value(of: "authorization") == "bearer \(old)"
            // The first one is accepted, so that many are on the wire when the token expires.
            if isOld, connection.requests == 1 { return connection.respond(request, 200) }
            let hasStaleCredential = wedged.withLock { numbers in
                if isOld { numbers.insert(connection.number) }
                return numbers.contains(connection.number)
            }
            guard hasStaleCredential else {
                carriers.add(connection.number)
                return connection.respond(request, 200)
            }
            if !isOld { late.add() }
            connection.respond(request, 403, Self.expired)
        }
        let credential = APNsCredential(key: key, store: store, clock: TestClock(), logger: quiet)
        let gateway = try await TestGateway.start(provider, credential: credential, total: 500)
        try await gateway.finished.get()
        try await gateway.look { traffic in
            #expect(traffic.count(.accepted) == 500 && traffic.isExact)
            #expect(!traffic.gateway.status.isHeld)
        }
        #expect(store.writes.count == 1 && late.count == 0)
        #expect(!carriers.all.isEmpty && carriers.all.isDisjoint(with: wedged.withLock { $0 }))
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("D10 a new token called expired because an older one was, on the same connection, is not in doubt")
    func overtaken() async throws {
        let (key, old) = try Self.agedKey()
        let store = GatewayCredentialTests.Store(old)
        let express = Mutex<Int?>(nil)
        let reported = Tally()
        let provider = try await FakeProvider.start { connection, request in
            let first = express.withLock { number in
                if number == nil { number = connection.number }
                return number
            }
            guard request.value(of: "authorization") == "bearer \(old)" else {
                // Behind an old one that is still awaited the new token meets the same answer.
                for stream in connection.held + (connection.held.isEmpty ? [] : [request.streamID]) {
                    reported.add()
                    connection.handler?.respond(
                        to: stream,
                        HTTP2Response(status: 403, body: Array(Self.expired.utf8)),
                    )
                }
                if connection.held.isEmpty { connection.respond(request, 200) }
                connection.held = []
                return
            }
            guard connection.number == first else { return connection.respond(request, 403, Self.expired) }
            if connection.requests == 1 { return connection.respond(request, 200) }
            connection.held.append(request.streamID)
        }
        let credential = APNsCredential(key: key, store: store, clock: TestClock(), logger: quiet)
        let gateway = try await TestGateway.start(provider, credential: credential, total: 0)
        try await gateway.until { $0.gateway.status.connections.open == 2 && $0.gateway.hasRoom(.express) }
        try await gateway.look { #expect($0.submit(1, lane: .express)) }
        try await gateway.until { $0.outcomes[1] == .accepted }
        try await gateway.look { #expect($0.submit(2, lane: .express) && $0.submit(3, lane: .express)) }
        // Bulk's connection finds that the token has expired; there is a new one when its request has gone through.
        try await gateway.look { #expect($0.submit(4, lane: .bulk)) }
        try await gateway.until { $0.outcomes[4] == .accepted }
        // One of the old ones was looked at in time: the connection is taken to be good.
        try await provider.look { connections in
            guard let number = express.withLock({ $0 }), !connections[number].held.isEmpty else { return }
            let connection = connections[number]
            connection.handler?.respond(to: connection.held.removeFirst(), HTTP2Response(status: 200))
        }
        try await gateway.until { $0.outcomes[2] == .accepted }
        try await gateway.look { #expect($0.submit(5, lane: .express)) }
        try await gateway.until { $0.outcomes[3] == .accepted && $0.outcomes[5] == .accepted }
        try await gateway.look { traffic in
            #expect(traffic.holds.isEmpty && !traffic.gateway.status.isHeld && traffic.isExact)
        }
        #expect(reported.count == 2 && store.writes.count == 1)
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("GOAWAY about too many tokens is no reason to stop: the token at hand goes on, on another connection")
    func goAwayRenewed() async throws {
        let provider = try await FakeProvider.start { connection, request in
            guard connection.number < 2 else { return connection.respond(request, 200) }
            connection.handler?.goAway(
                lastStreamID: 0,
                code: .noError,
                debug: Array(#"{"reason":"TooManyProviderTokenUpdates"}"#.utf8),
            )
        }
        let credential = try FixedCredential()
        let gateway = try await TestGateway.start(provider, credential: credential, total: 100)
        try await gateway.finished.get()
        try await gateway.look { traffic in
            #expect(traffic.count(.accepted) == 100 && traffic.isExact)
            #expect(!traffic.gateway.status.isHeld)
        }
        #expect(credential.rejections.count == 0)
        try await gateway.drain()
        try await provider.stop()
    }

    @Test(
        "a peer that is gone without a word is found by PING, whether it owes answers or not",
        arguments: [true, false]
    )
    func blackHole(owesAnswers: Bool) async throws {
        let provider = try await FakeProvider.start { connection, request in
            guard connection.number < 2 else { return connection.respond(request, 200) }
            // It reads nothing any more, so it answers no PING either.
            if !owesAnswers { connection.respond(request, 200) }
            connection.goDeaf()
        }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 1) {
            $0.requestTimeout = .minutes(10)
            $0.pingTimeout = .seconds(2)
            $0.silencePing = owesAnswers ? .milliseconds(100) : .hours(1)
            $0.idlePing = owesAnswers ? .hours(1) : .milliseconds(100)
        }
        try await gateway.finished.get()
        try await gateway.look { traffic in
            #expect(traffic.count(owesAnswers ? .lost(.connection) : .accepted) == 1)
        }
        try await gateway.until { $0.gateway.status.counts.handshakes >= 3 }
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("what bulk needed beyond its minimum is closed when it was idle")
    func shrinking() async throws {
        let isOver = Mutex(false)
        let provider = try await FakeProvider.start(HTTP2ServerConfiguration(maxConcurrentStreams: 5)) {
            connection,
            request in
            guard connection.requests > 1, !isOver.withLock({ $0 }) else { return connection.respond(request, 200) }
            connection.held.append(request.streamID)
        }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 40) {
            $0.bulkConnectionsMax = 2
            $0.idleClose = .milliseconds(100)
        }
        try await gateway.until { $0.gateway.status.connections.open == 3 }
        isOver.withLock { $0 = true }
        try await provider.look { connections in
            for connection in connections {
                for stream in connection.held {
                    connection.handler?.respond(to: stream, HTTP2Response(status: 200))
                }
                connection.held = []
            }
        }
        try await gateway.finished.get()
        try await gateway.until {
            $0.gateway.status.connections == ConnectionPool.Statistics(open: 2, streamsLimit: 10)
        }
        try await gateway.look { #expect($0.count(.accepted) == 40 && $0.isExact) }
        try await gateway.drain()
        try await provider.stop()
    }
}
