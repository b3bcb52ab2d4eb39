import ApusAPNs
import ApusCore
import ApusHTTP2
import ApusProviders
import ApusTLS
import NIOCore
import NIOPosix
import Testing

/// Questions that a provider is asked once: whether it takes a credential.
@Suite(.timeLimit(.minutes(2))) struct SingleRequestTests {
    private static func gateway(
        _ provider: FakeProvider,
        as kind: Provider = .apns,
        on loop: any EventLoop,
    ) throws -> ProviderGateway {
        ProviderGateway(
            configuration: gatewayConfiguration(to: kind, port: provider.port),
            credential: try FixedCredential(),
            eventLoop: loop,
            tls: provider.trust,
            clock: TestClock(),
            logger: quiet,
        )
    }

    private static func probe(
        as kind: Provider = .apns,
        _ answer: @escaping FakeProvider.Answer,
    ) async throws -> CredentialProbe.Verdict {
        let provider = try await FakeProvider.start(answer: answer)
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let message = try kind == .apns ? TestGateway.apnsMessage() : TestGateway.fcmMessage()
        let verdict = try await loop.flatSubmit {
            do {
                let token = kind == .apns ? [UInt8](repeating: 0, count: 32) : Array("nobody".utf8)
                let gateway = try Self.gateway(provider, as: kind, on: loop)
                return CredentialProbe.run(message, token: token, over: gateway)
            } catch {
                return loop.makeFailedFuture(error)
            }
        }.get()
        try await provider.stop()
        return verdict
    }

    @Test("whatever is said of the token, the credential was taken", arguments: [200, 400, 410])
    func taken(_ status: Int) async throws {
        let reason = status == 410 ? "Unregistered" : "BadDeviceToken"
        let verdict = try await Self.probe { connection, request in
            connection.respond(request, status, status == 200 ? "" : "{\"reason\":\"\(reason)\"}")
        }
        #expect(verdict == .taken)
    }

    @Test("a key that Apple does not take is refused, in Apple's word")
    func refused() async throws {
        let verdict = try await Self.probe { connection, request in
            connection.respond(request, 403, "{\"reason\":\"InvalidProviderToken\"}")
        }
        #expect(verdict == .refused("InvalidProviderToken"))
    }

    @Test(
        "a refusal of the project or without a word is the credential's; an unknown word says nothing of it",
        arguments: [
            (.apns, 403, "", .refused("status 403")),
            (.apns, 403, #"{"reason":"SomethingNew"}"#, .unanswered("SomethingNew")),
            (.apns, 429, #"{"reason":"TooManyProviderTokenUpdates"}"#, .unanswered("TooManyProviderTokenUpdates")),
            (.fcm, 404, #"{"error":{"code":404,"status":"NOT_FOUND"}}"#, .refused("NOT_FOUND")),
            (.fcm, 403, "<html>", .refused("status 403")),
            (.fcm, 400, #"{"error":{"code":400,"status":"INVALID_ARGUMENT"}}"#, .taken),
        ] as [(Provider, Int, String, CredentialProbe.Verdict)]
    )
    func doubtful(provider: Provider, status: Int, body: String, expected: CredentialProbe.Verdict) async throws {
        let verdict = try await Self.probe(as: provider) { connection, request in
            connection.respond(request, status, body)
        }
        #expect(verdict == expected)
    }

    @Test("trouble of Apple's says nothing about the key")
    func unanswered() async throws {
        let verdict = try await Self.probe { connection, request in
            connection.respond(request, 503, "{\"reason\":\"ServiceUnavailable\"}")
        }
        #expect(verdict == .unanswered("ServiceUnavailable"))
    }

    @Test("who never answers is not waited for")
    func silence() async throws {
        let provider = try await FakeProvider.start { _, _ in }
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let message = try TestGateway.apnsMessage()
        let answer = try await loop.flatSubmit {
            do {
                let gateway = try Self.gateway(provider, on: loop)
                return SingleRequest.send(message, token: [1], over: gateway, timeout: .milliseconds(200))
            } catch {
                return loop.makeFailedFuture(error)
            }
        }.get()
        #expect(answer.outcome == .lost(.timeout))
        try await provider.stop()
    }

    @Test("who cannot be connected to is named at once, with the reason")
    func unreachable() async throws {
        let provider = try await FakeProvider.start { _, _ in }
        let port = provider.port
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let message = try TestGateway.apnsMessage()
        func probe(
            _ change: @escaping @Sendable (inout ProviderGatewayConfiguration) -> Void,
            trust: TLSContext
        )
            async throws -> CredentialProbe.Verdict
        {
            try await loop.flatSubmit {
                do {
                    var configuration = gatewayConfiguration(to: .apns, port: port)
                    change(&configuration)
                    let gateway = ProviderGateway(
                        configuration: configuration,
                        credential: try FixedCredential(),
                        eventLoop: loop,
                        tls: trust,
                        clock: TestClock(),
                        logger: quiet,
                    )
                    return CredentialProbe.run(message, token: [1], over: gateway)
                } catch {
                    return loop.makeFailedFuture(error)
                }
            }.get()
        }
        let unknown = try await probe({ $0.host = "nowhere.invalid" }, trust: provider.trust)
        #expect(unknown == .unanswered("the name of nowhere.invalid:\(port) is not found"))
        let host = "127.0.0.1:\(port)"
        let distrusted = try await probe({ _ in }, trust: try TLSContext.client(trust: .system, alpn: ["h2"]))
        #expect("\(distrusted)".contains("the certificate of \(host) is refused: "))
        try await provider.stop()
        let refused = try await probe({ _ in }, trust: provider.trust)
        #expect(refused == .unanswered("cannot connect to \(host): Connection refused"))
    }

    @Test("a token that another key signed under the same id is not this key's")
    func signature() throws {
        let now = UnixMilliseconds(1_700_000_000_000)
        func key() throws -> APNsProviderKey {
            try APNsProviderKey(keyID: "ABC123DEFG", teamID: "DEF123GHIJ", key: .generate(.p256))
        }
        let (mine, another) = (try key(), try key())
        let token = try mine.sign(issuedAt: now)
        #expect(mine.signed(token) && !another.signed(token))
    }
}
