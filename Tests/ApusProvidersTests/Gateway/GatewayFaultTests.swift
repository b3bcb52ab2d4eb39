import ApusCore
import ApusHTTP2
import ApusProviders
import NIOCore
import NIOPosix
import Synchronization
import Testing

/// Tests that every submission has exactly one answer, whatever providers do to connections.
@Suite(.timeLimit(.minutes(2))) struct GatewayFaultTests {
    @Test("D32 one request until the first is answered, then many, never above the limit")
    func firstStream() async throws {
        let provider = try await FakeProvider.start(HTTP2ServerConfiguration(maxConcurrentStreams: 1)) {
            connection,
            request in
            if connection.requests == 1 {
                // Meanwhile the gateway must not send another.
                connection.handler?.respond(to: request.streamID, HTTP2Response(status: 200), after: .milliseconds(30))
                connection.held = [request.streamID]
            } else {
                if connection.requests == 2 { #expect(connection.held == [1]) }
                connection.respond(request, 200)
            }
            if connection.requests == 1 {
                connection.handler?.eventLoop?.assumeIsolated().scheduleTask(in: .milliseconds(30)) {
                    #expect(connection.requests == 1)
                    connection.handler?.updateSettings(maxConcurrentStreams: 100)
                }
            }
        }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 2_000)
        try await gateway.finished.get()
        try await gateway.look { traffic in
            #expect(traffic.count(.accepted) == 2_000)
            #expect(traffic.isExact)
            #expect(traffic.inFlightMax > 2)
        }
        let openMax = try await provider.look { $0.map(\.openMax).max() ?? 0 }
        #expect((2...100).contains(openMax))
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("D33 the limit falls in mid-flight; nothing is lost, and nothing goes beyond it")
    func settingsDown() async throws {
        let isLowered = Mutex(false)
        let provider = try await FakeProvider.start(HTTP2ServerConfiguration(maxConcurrentStreams: 100)) {
            connection,
            request in
            // The first at once, so that many follow it.
            guard connection.requests == 1 || isLowered.withLock({ $0 }) else {
                return connection.held.append(request.streamID)
            }
            let delay: TimeAmount = connection.requests == 1 ? .zero : .milliseconds(1)
            connection.handler?.respond(to: request.streamID, HTTP2Response(status: 200), after: delay)
        }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 400) {
            $0.bulkConnectionsMax = 1
        }
        // Bulk's connection carries all that it may: nothing is on its way that would meet the new limit unaware of it.
        while try await provider.look({ $0.count < 2 || $0[1].held.count < 100 }) {
            try await Task.sleep(for: .milliseconds(1))
        }
        isLowered.withLock { $0 = true }
        try await provider.look { connections in
            for connection in connections {
                connection.handler?.updateSettings(maxConcurrentStreams: 1)
                Self.release(connection)
            }
        }
        try await gateway.finished.get()
        try await gateway.look { traffic in
            #expect(traffic.count(.accepted) == 400)
            #expect(traffic.freeDeferrals == 0, "nothing was sent beyond the limit to be turned away")
            #expect(traffic.isExact)
        }
        #expect(try await provider.look { $0.map(\.openMax).max() } == 100)
        try await gateway.drain()
        try await provider.stop()
    }

    private static func release(_ connection: FakeConnection) {
        for stream in connection.held { connection.handler?.respond(to: stream, HTTP2Response(status: 200)) }
        connection.held = []
    }

    @Test("D29 after GOAWAY what was not processed goes on a new connection, the rest is answered where it was")
    func goAway() async throws {
        let provider = try await FakeProvider.start { connection, request in
            connection.held.append(request.streamID)
            if connection.number < 2, connection.requests == 1 { return Self.release(connection) }
            guard connection.requests == 7, connection.number < 2 else {
                if connection.number >= 2 { Self.release(connection) }
                return
            }
            // Streams 1 to 13 have come; 11 and 13 are said not to have been looked at.
            connection.handler?.goAway(lastStreamID: 9, code: .noError)
            for stream in connection.held where stream <= 9 {
                connection.handler?.respond(to: stream, HTTP2Response(status: 200))
            }
        }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 100)
        try await gateway.finished.get()
        try await gateway.look { traffic in
            #expect(traffic.count(.accepted) == 100)
            #expect(traffic.freeDeferrals >= 2)
            #expect(traffic.isExact)
            #expect(traffic.gateway.status.counts.goAways[.noError, default: 0] >= 1)
            #expect(Set(traffic.gateway.status.counts.goAways.keys) == [.noError])
            #expect(traffic.gateway.status.counts.lost == 0)
        }
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("D30 GOAWAY about our set-up answers misconfigured, and there is no storm of connections")
    func goAwayMisconfigured() async throws {
        let provider = try await FakeProvider.start { connection, _ in
            connection.handler?.goAway(
                lastStreamID: 0,
                code: .noError,
                debug: Array(#"{"reason":"BadCertificateEnvironment"}"#.utf8),
            )
        }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 2_000)
        try await gateway.until { $0.gateway.status.isHeld && $0.isExact }
        try await gateway.look { traffic in
            #expect(traffic.holds == ["BadCertificateEnvironment"] && traffic.submissions < 4)
            #expect(traffic.count(.misconfigured(.credential)) == traffic.submissions)
            #expect(!traffic.gateway.hasRoom(.express) && !traffic.submit(3_000))
        }
        // No further attempt is planned.
        try await gateway.until { !$0.gateway.status.isBackingOff }
        #expect(try await gateway.look { $0.gateway.status.counts.attempts } <= 3)
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("D31 a refused stream goes again at once and counts as no failure")
    func refused() async throws {
        let turn = Tally()
        let provider = try await FakeProvider.start { connection, request in
            if turn.add() % 3 == 0 {
                connection.handler?.reset(request.streamID, code: .refusedStream)
            } else {
                connection.respond(request, 200)
            }
        }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 1_000)
        try await gateway.finished.get()
        try await gateway.look { traffic in
            #expect(traffic.count(.accepted) == 1_000)
            #expect(traffic.freeDeferrals >= 300)
            #expect(traffic.isExact)
        }
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("D21 however many tokens are dead, the connection goes on at full width")
    func manyDead() async throws {
        let (total, width) = (3_000, 200)
        let provider = try await FakeProvider.start(HTTP2ServerConfiguration(maxConcurrentStreams: UInt32(width))) {
            connection,
            request in
            connection.respond(request, 410, #"{"reason":"Unregistered","timestamp":1700000000000}"#)
        }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: total)
        try await gateway.finished.get()
        try await gateway.look { traffic in
            #expect(traffic.count(.unregistered(.unregistered, asOf: UnixMilliseconds(1_700_000_000_000))) == total)
            #expect(traffic.isExact)
            #expect(traffic.inFlightMax >= width, "a dead token proves the credential as any other answer does")
            // One for express and one for bulk, as ever.
            #expect(traffic.gateway.status.counts.handshakes == 2)
            #expect(traffic.gateway.status.connections.open == 2)
        }
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("a provider that never answers: every request is lost in time, and the connection is given up")
    func silence() async throws {
        let provider = try await FakeProvider.start { _, _ in }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 30) {
            $0.requestTimeout = .milliseconds(50)
            $0.startsWithOneStream = false
            $0.timeoutsMax = 10
        }
        try await gateway.finished.get()
        try await gateway.until { $0.gateway.status.counts.attempts >= 3 }
        try await gateway.look { traffic in
            #expect(traffic.count(.lost(.timeout)) >= 10)
            #expect(traffic.count(.lost(.timeout)) + traffic.count(.lost(.connection)) == 30)
            #expect(traffic.isExact)
        }
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("a connection that never takes anything costs one request, not ten one after the other")
    func silenceFromTheStart() async throws {
        // The first two connections, of express and bulk, say nothing at all.
        let provider = try await FakeProvider.start { connection, request in
            if connection.number >= 2 { connection.respond(request, 200) }
        }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 30) {
            // Long enough that an answer to come does come.
            $0.requestTimeout = .seconds(3)
        }
        try await gateway.finished.get()
        try await gateway.look { traffic in
            #expect((1...2).contains(traffic.count(.lost(.timeout))))
            #expect(traffic.count(.lost(.timeout)) + traffic.count(.accepted) == 30)
            #expect(traffic.isExact)
        }
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("a connection that dies with requests in flight: each is lost once, and the rest goes on a new one")
    func killed() async throws {
        let kills = Tally()
        let provider = try await FakeProvider.start(HTTP2ServerConfiguration(maxConcurrentStreams: 100)) {
            connection,
            request in
            if connection.requests == 40, kills.count < 3 {
                kills.add()
                connection.handler?.close()
            } else if connection.requests == 1 || kills.count == 3 {
                connection.respond(request, 200)
                Self.release(connection)
            } else {
                connection.held.append(request.streamID)
            }
        }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 1_000)
        try await gateway.finished.get()
        try await gateway.look { traffic in
            #expect(traffic.count(.accepted) + traffic.count(.lost(.connection)) == 1_000)
            #expect(traffic.count(.lost(.connection)) >= 30)
            #expect(traffic.isExact)
        }
        #expect(kills.count == 3)
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("a code to log in does not wait behind a campaign")
    func express() async throws {
        let isOver = Mutex(false)
        let provider = try await FakeProvider.start(HTTP2ServerConfiguration(maxConcurrentStreams: 50)) {
            connection,
            request in
            // Of the campaign only each connection's first request is answered for now; the express request alone has no id.
            let isExpress = request.value(of: "apns-id") == nil
            guard connection.requests == 1 || isExpress || isOver.withLock({ $0 }) else {
                connection.held.append(request.streamID)
                return
            }
            connection.respond(request, 200)
        }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 100)
        try await gateway.until { !$0.gateway.hasRoom(.bulk) && $0.gateway.inFlight >= 50 }
        try await gateway.look { traffic in
            #expect(traffic.gateway.hasRoom(.express))
            #expect(traffic.submit(1_000, lane: .express))
        }
        try await gateway.until { $0.outcomes[1_000] == .accepted }
        try await gateway.look { #expect($0.count(.accepted) <= 3) }
        isOver.withLock { $0 = true }
        try await provider.look { $0.forEach(Self.release) }
        try await gateway.finished.get()
        try await gateway.until { $0.outcomes.count == 101 }
        try await gateway.look { #expect($0.isExact) }
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("nobody there: no answers, waits between attempts, and the drain ends")
    func nobody() async throws {
        let provider = try await FakeProvider.start { connection, request in connection.respond(request, 200) }
        try await provider.stop()
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 5) {
            $0.backoff = ConnectBackoff(base: 10_000_000, cap: 20_000_000, stableAfter: 1_000_000)
        }
        try await gateway.until { $0.gateway.status.counts.attemptsFailed >= 3 }
        try await gateway.look { traffic in
            #expect(traffic.submissions == 0)
            #expect(!traffic.gateway.status.isReady)
        }
        try await gateway.drain()
    }

    @Test("drain takes nothing more, waits for what is on the wire and closes cleanly")
    func drain() async throws {
        let isOver = Mutex(false)
        let provider = try await FakeProvider.start { connection, request in
            guard connection.requests == 1 || isOver.withLock({ $0 }) else {
                connection.held.append(request.streamID)
                return
            }
            connection.respond(request, 200)
        }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 300) {
            $0.streamsMax = 50
        }
        try await gateway.until { $0.gateway.inFlight >= 50 }
        let open = try await gateway.look { $0.gateway.inFlight }
        async let drained: Void = gateway.drain()
        try await gateway.until { !$0.gateway.status.isReady }
        try await gateway.look { #expect($0.gateway.inFlight == open) }
        isOver.withLock { $0 = true }
        try await provider.look { $0.forEach(Self.release) }
        try await drained
        try await gateway.look { traffic in
            #expect(traffic.count(.accepted) == traffic.submissions)
            #expect(traffic.submissions < 300)
            #expect(traffic.isExact)
            #expect(!traffic.gateway.hasRoom(.bulk))
            #expect(traffic.gateway.status.connections == ConnectionPool.Statistics())
        }
        try await provider.stop()
    }

    @Test("a token that cannot be written is not sent, and no suspect, because nobody was asked about it")
    func invalidToken() async throws {
        let provider = try await FakeProvider.start { connection, request in connection.respond(request, 200) }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 1, as: .fcm)
        try await gateway.finished.get()
        try await gateway.look { traffic in
            #expect(traffic.submit(77, token: Array(#"a","x":"b"#.utf8)))
            #expect(traffic.outcomes[77] == nil, "not from within the submission")
        }
        try await gateway.until { $0.outcomes[77] != nil }
        try await gateway.look { #expect($0.outcomes[77] == .rejected(.badToken)) }
        #expect(try await provider.look { $0.reduce(0) { $0 + $1.requests } } == 1)
        try await gateway.drain()
        try await provider.stop()
    }

    @Test("answers of every kind come through the provider's table, with the provider's word")
    func answers() async throws {
        let provider = try await FakeProvider.start { connection, request in
            switch request.value(of: "apns-id")?.suffix(1) {
            case "0": connection.respond(request, 410, #"{"reason":"Unregistered","timestamp":1700000000000}"#)
            case "1": connection.respond(request, 400, #"{"reason":"BadDeviceToken"}"#)
            case "2": connection.respond(request, 413, #"{"reason":"PayloadTooLarge"}"#)
            case "3": connection.respond(request, 503, #"{"reason":"Shutdown"}"#)
            default: connection.respond(request, 400, "<html>")
            }
        }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 5)
        try await gateway.finished.get()
        try await gateway.look { traffic in
            #expect(traffic.outcomes[0] == .unregistered(.unregistered, asOf: UnixMilliseconds(1_700_000_000_000)))
            #expect(traffic.outcomes[1] == .suspect(.badToken))
            #expect(traffic.outcomes[2] == .rejected(.payload))
            #expect(traffic.outcomes[3] == .deferred(Deferral(.providerUnavailable, needsNewConnection: true)))
            #expect(traffic.outcomes[4] == .rejected(.other))
            #expect(traffic.reasons[1] == "BadDeviceToken")
            #expect(traffic.reasons[4] == "status 400")
            #expect(traffic.isExact)
        }
        try await gateway.drain()
        try await provider.stop()
    }
}
