import ApusCore
import ApusHTTP2
import ApusProviders
import ApusTLS
import NIOCore
import NIOPosix
import Testing

/// Peers that end a connection after its handshake, before they have answered anything on it.
@Suite(.timeLimit(.minutes(2))) struct GatewayRefusalTests {
    private static let refusal = "the certificate is refused (unknown_ca)"

    /// Gives a certificate that connections present.
    private final class CertifiedCredential: ProviderCredential {
        func grant(on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
            eventLoop.makeSucceededFuture(.connection)
        }

        func rejected(_ header: HeaderValue, on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
            self.grant(on: eventLoop)
        }

        func renewedTooOften() {}

        func restored() {}

        var expiresAt: UnixMilliseconds? { nil }
    }

    /// A provider that does not know the authority of its clients' certificates. In TLS 1.3 it says so when a client's handshake is over.
    private static func strangers() async throws -> FakeProvider {
        let validity = CertificateValidity(from: TestClock().now())
        let known = try CertificateAuthority(name: "Known", validity: validity)
        let unknown = try CertificateAuthority(name: "Unknown", validity: validity)
        let profile = CertificateProfile(.client, commonName: "Push", validity: validity)
        return try await FakeProvider.start(
            clientCA: .pem(known.certificatePEM),
            certificate: unknown.issue(profile),
        ) { connection, request in
            connection.respond(request, 200)
        }
    }

    @Test("D30 a TLS alert about our certificate answers misconfigured, and there is no storm of connections")
    func alert() async throws {
        let provider = try await Self.strangers()
        let gateway = try await TestGateway.start(provider, credential: CertifiedCredential(), total: 2_000)
        try await gateway.until {
            $0.gateway.status.isHeld && $0.isExact && $0.gateway.status.connections == ConnectionPool.Statistics()
        }
        let attempts = try await gateway.look { traffic in
            #expect(traffic.holds == [Self.refusal] && traffic.faults.isEmpty && traffic.submissions < 4)
            #expect(traffic.count(.misconfigured(.credential)) == traffic.submissions)
            #expect(!traffic.gateway.hasRoom(.express) && !traffic.submit(3_000))
            // No further attempt is planned.
            let status = traffic.gateway.status
            #expect(!status.isBackingOff && status.counts.attempts <= 3)
            #expect(status.counts.failures == [.tls: status.counts.attempts])
            return status.counts.attempts
        }
        // Let go on too early it is held again.
        try await gateway.look { $0.gateway.restored() }
        try await gateway.until { $0.gateway.status.isHeld && $0.holds.count == 2 }
        #expect(try await gateway.look { $0.gateway.status.counts.attempts } > attempts)
        try await gateway.drain()
        try await provider.stop()
    }

    @Test func `A probe with a certificate that is refused by an alert is refused`() async throws {
        let provider = try await Self.strangers()
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let message = try TestGateway.apnsMessage()
        let verdict = try await loop.flatSubmit {
            let gateway = ProviderGateway(
                configuration: gatewayConfiguration(to: .apns, port: provider.port),
                credential: CertifiedCredential(),
                eventLoop: loop,
                tls: provider.trust,
                clock: TestClock(),
                logger: quiet,
            )
            return CredentialProbe.run(message, token: [UInt8](repeating: 0, count: 32), over: gateway)
        }.get()
        #expect(verdict == .refused(Self.refusal))
        try await provider.stop()
    }

    @Test func `A peer that ends every connection at its first request is reported as one that cannot be connected to`()
        async throws
    {
        let provider = try await FakeProvider.start { connection, _ in connection.handler?.close() }
        let port = provider.port
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 3)
        try await gateway.finished.get()
        try await gateway.until { $0.faults.count == 3 }
        try await gateway.look { traffic in
            #expect(traffic.count(.lost(.connection)) == 3 && traffic.isExact && traffic.holds.isEmpty)
            let words = "127.0.0.1:\(port) ended a connection before it had answered a request"
            #expect(traffic.faults.allSatisfy { $0.hasPrefix(words) })
            #expect(traffic.gateway.status.counts.failures == [.tls: 3])
        }
        try await gateway.drain()
        try await provider.stop()
    }

    @Test func `A connection that nobody has used may end, and is no fault`() async throws {
        let provider = try await FakeProvider.start { connection, request in connection.respond(request, 200) }
        let gateway = try await TestGateway.start(provider, credential: FixedCredential(), total: 1)
        try await gateway.finished.get()
        try await gateway.until { $0.gateway.status.connections.open == 2 }
        try await provider.look { connections in
            for connection in connections where connection.requests == 0 { connection.handler?.close() }
        }
        try await gateway.until { $0.gateway.status.counts.handshakes == 3 }
        try await gateway.look { #expect($0.faults.isEmpty && $0.gateway.status.counts.failures.isEmpty) }
        try await gateway.drain()
        try await provider.stop()
    }
}
