import ApusCore
import ApusHTTP2
import ApusProviders
import NIOCore
import NIOPosix
import Testing

/// Tests what a gateway reports of its connections: why there are none, their round trip, the bytes.
@Suite(.timeLimit(.minutes(2))) struct GatewayConnectionTests {
    /// Gives what it is told to give, once it is told.
    private final class LateCredential: ProviderCredential {
        private let future: EventLoopFuture<CredentialGrant>

        init(_ future: EventLoopFuture<CredentialGrant>) { self.future = future }

        func grant(on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> { self.future.hop(to: eventLoop) }

        func rejected(_ header: HeaderValue, on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
            self.grant(on: eventLoop)
        }

        func renewedTooOften() {}

        func restored() {}

        var expiresAt: UnixMilliseconds? { nil }
    }

    /// Tries to connect three times, and says why it could not.
    private func failures(
        _ provider: FakeProvider,
        _ change: (inout ProviderGatewayConfiguration) -> Void = { _ in },
    ) async throws -> Set<ConnectFailure> {
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 1) {
            $0.backoff = ConnectBackoff(base: 1_000_000, cap: 2_000_000, stableAfter: 1_000_000_000)
            change(&$0)
        }
        try await gateway.until { $0.gateway.status.counts.attemptsFailed >= 3 }
        let counts = try await gateway.look { $0.gateway.status.counts }
        #expect(counts.handshakes == 0)
        try await gateway.drain()
        return Set(counts.failures.keys)
    }

    /// Ends a provider's connections until its gateway has a fault.
    private func fault(_ gateway: TestGateway, _ provider: FakeProvider) async throws -> GatewayFault {
        while true {
            try await provider.look { for connection in $0 { connection.handler?.close() } }
            if let fault = try await gateway.look({ $0.gateway.connectFault }) { return fault }
            try await Task.sleep(for: .milliseconds(1))
        }
    }

    /// Runs a server that handles its connections with that closure.
    private func listener(_ body: @escaping @Sendable (any Channel) -> Void) async throws -> any Channel {
        try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelInitializer { channel in
                body(channel)
                return channel.eventLoop.makeSucceededVoidFuture()
            }
            .bind(host: "127.0.0.1", port: 0)
            .get()
    }

    @Test func `A name without an address, an address without a listener and a listener without HTTP-2 are told apart`()
        async throws
    {
        let provider = try await FakeProvider.start(alpn: ["http/1.1"]) { _, _ in }
        // No part of a name is longer than 63 characters: nobody has to be asked.
        let name = String(repeating: "x", count: 64) + ".invalid"
        #expect(try await self.failures(provider) { $0.host = name } == [.dns])
        #expect(try await self.failures(provider) == [.alpn])
        try await provider.stop()
        #expect(try await self.failures(provider) == [.tcp])
    }

    @Test func `A peer that hangs up instead of a handshake, and one that says nothing, are told apart`() async throws {
        let provider = try await FakeProvider.start { _, _ in }
        let hangingUp = try await self.listener { channel in
            channel.eventLoop.execute { channel.close(promise: nil) }
        }
        #expect(try await self.failures(provider) { $0.port = hangingUp.localAddress?.port ?? 0 } == [.tls])
        try await hangingUp.close()
        let silent = try await self.listener { _ in }
        #expect(
            try await self.failures(provider) {
                $0.port = silent.localAddress?.port ?? 0
                $0.connectTimeout = .milliseconds(100)
            } == [.timeout]
        )
        try await silent.close()
        try await provider.stop()
    }

    @Test
    func `A gateway has a fault since its first attempt in vain after its last connection, and none while one is open`()
        async throws
    {
        let provider = try await FakeProvider.start { connection, request in connection.respond(request, 200) }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 1) {
            $0.backoff = ConnectBackoff(base: 1_000_000, cap: 2_000_000, stableAfter: 1_000_000_000)
        }
        try await gateway.finished.get()
        #expect(try await gateway.look { $0.gateway.connectFault == nil })
        // Nobody is let in any more before the connections end.
        try await provider.channel.close()
        try await provider.look { for connection in $0 { connection.handler?.close() } }
        try await gateway.until { $0.gateway.connectFault != nil }
        let first = try #require(try await gateway.look { $0.gateway.connectFault })
        let failures = try await gateway.look { $0.gateway.status.counts.attemptsFailed }
        try await gateway.until { $0.gateway.status.counts.attemptsFailed >= failures + 3 }
        let later = try #require(try await gateway.look { $0.gateway.connectFault })
        #expect(later.since == first.since && later.detail.hasSuffix(": Connection refused"), "\(later)")
        try await gateway.drain()
    }

    @Test
    func `A fault has the age of the first one when each connection ends unused, and not when one has answered`()
        async throws
    {
        let provider = try await FakeProvider.start { connection, request in connection.respond(request, 200) }
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let grant = loop.makePromise(of: CredentialGrant.self)
        let credential = LateCredential(grant.futureResult)
        // Requests wait for the credential.
        let gateway = try await TestGateway.start(provider, credential: credential, total: 1, loop: loop) {
            $0.backoff = ConnectBackoff(base: 1_000_000, cap: 2_000_000, stableAfter: 3_600_000_000_000)
        }
        try await gateway.until { $0.gateway.status.connections.open == 2 }
        let first = try await self.fault(gateway, provider)
        try await gateway.until { $0.gateway.connectFault == nil && $0.gateway.status.connections.open == 2 }
        #expect(try await self.fault(gateway, provider).since == first.since)
        let header = try HeaderValue("bearer token")
        grant.succeed(.usable(header, askAgainAt: UnixMilliseconds(.max)))
        try await gateway.finished.get()
        try await provider.channel.close()
        #expect(try await self.fault(gateway, provider).since > first.since)
        try await gateway.drain()
    }

    @Test
    func `A fault has not the age of the first one while a connection that has answered since awaits its last answer`()
        async throws
    {
        let provider = try await FakeProvider.start { connection, request in
            guard connection.requests > 1 else { return connection.respond(request, 200) }
            connection.held.append(request.streamID)
        }
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let grant = loop.makePromise(of: CredentialGrant.self)
        let credential = LateCredential(grant.futureResult)
        let gateway = try await TestGateway.start(provider, credential: credential, total: 1, loop: loop) {
            $0.backoff = ConnectBackoff(base: 1_000_000, cap: 2_000_000, stableAfter: 3_600_000_000_000)
        }
        try await gateway.until { $0.gateway.status.connections.open == 2 }
        let first = try await self.fault(gateway, provider)
        try await gateway.until { $0.gateway.connectFault == nil && $0.gateway.status.connections.open == 2 }
        let header = try HeaderValue("bearer token")
        grant.succeed(.usable(header, askAgainAt: UnixMilliseconds(.max)))
        try await gateway.finished.get()
        #expect(try await gateway.look { $0.submit(1) })
        while try await provider.look({ $0.allSatisfy(\.held.isEmpty) }) { try await Task.sleep(for: .milliseconds(1)) }
        try await provider.channel.close()
        try await provider.look { connections in
            for connection in connections {
                connection.handler?.goAway(lastStreamID: connection.held.last ?? 0, code: .noError)
            }
        }
        try await gateway.until { $0.gateway.connectFault != nil }
        let last = try #require(try await gateway.look { $0.gateway.connectFault })
        #expect(last.since > first.since)
        #expect(try await gateway.look { $0.gateway.inFlight == 1 })
        try await provider.look { connections in
            for connection in connections {
                for stream in connection.held {
                    connection.handler?.respond(to: stream, HTTP2Response(status: 200))
                }
            }
        }
        try await gateway.drain()
    }

    @Test func `A gateway that is held has no fault, because it does not try again by itself`() async throws {
        let provider = try await FakeProvider.start { _, _ in }
        try await provider.stop()
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let grant = loop.makePromise(of: CredentialGrant.self)
        let credential = LateCredential(grant.futureResult)
        let gateway = try await TestGateway.start(provider, credential: credential, total: 1, loop: loop)
        try await gateway.until { $0.gateway.connectFault != nil }
        grant.succeed(.paused(detail: "the key is refused"))
        try await gateway.until { $0.gateway.isHeld }
        #expect(try await gateway.look { $0.gateway.connectFault == nil })
        try await gateway.drain()
    }

    @Test func `Each new connection is pinged once, and all its bytes are counted, even after it is closed`()
        async throws
    {
        let provider = try await FakeProvider.start { connection, request in connection.respond(request, 200) }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 500)
        try await gateway.finished.get()
        // One for express and one for bulk.
        try await gateway.until { $0.pings.count == 2 && $0.connects.count == 2 }
        let counts = try await gateway.look { traffic in
            #expect(traffic.pings.allSatisfy { $0 > 0 })
            #expect(traffic.connects.allSatisfy { $0.handshake > 0 && $0.handshake <= $0.all })
            return traffic.gateway.status.counts
        }
        // More than the bodies went out; each answer has at least a frame's header.
        #expect(counts.bytesSent > counts.payloadBytes && counts.payloadBytes > 0)
        #expect(counts.bytesReceived > 500 * 9)
        try await gateway.drain()
        let last = try await gateway.look { $0.gateway.status.counts }
        #expect(last.bytesSent >= counts.bytesSent && last.bytesReceived >= counts.bytesReceived)
        try await provider.stop()
    }
}
