import ApusTLS
import ApusTestKit
import NIOCore
import Testing

/// Everything that must not be trusted, each with its reason.
@Suite struct RefusalTests {
    static let root = Result { try TestCertificates.authority() }

    /// The client's error, with the server's view of it.
    static func refusal(
        identity: TLSIdentity,
        trust: TLSTrust? = nil,
        serverName: String = "localhost",
    ) throws -> TLSError? {
        let pair = try EnginePair(
            client: .client(trust: trust ?? .pem(self.root.get().certificatePEM)),
            server: .server(identity: identity),
            serverName: serverName,
        )
        let errors = pair.refusals()
        if errors.client != nil {
            // The client says why by an alert.
            #expect(errors.server?.code == .peerAlert)
            #expect(pair.client.state == .failed)
        }
        return errors.client
    }

    @Test(arguments: [
        (["other.example.com"], [String](), "localhost"),
        (["localhost"], [], "localhost.example.com"),
        ([], ["127.0.0.1"], "localhost"),
        (["127.0.0.1"], [], "127.0.0.1"),
        (["localhost"], ["127.0.0.2"], "127.0.0.1"),
        (["localhost"], ["::1"], "127.0.0.1"),
        ([], [], "localhost"),
    ])
    func anotherName(dnsNames: [String], ipAddresses: [String], asked: String) throws {
        let profile = TestCertificates.profile(dnsNames: dnsNames, ipAddresses: ipAddresses)
        let error = try Self.refusal(identity: Self.root.get().issue(profile), serverName: asked)
        #expect(error?.code == .certificateVerificationFailed)
        #expect(error?.verification == .nameMismatch)
    }

    @Test(arguments: [
        ("*.example.com", "a.b.example.com"),
        ("*.example.com", "example.com"),
        ("*.example.com", "a.example.org"),
        ("*.com", "example.com"),
        ("*", "localhost"),
        ("f*.example.com", "foo.example.com"),
        ("*oo.example.com", "foo.example.com"),
        ("f*o.example.com", "foo.example.com"),
        ("foo.*.example.com", "foo.bar.example.com"),
        ("*.*.example.com", "foo.bar.example.com"),
        ("xn--*.example.com", "xn--a.example.com"),
    ])
    func wildcardAbuse(pattern: String, asked: String) throws {
        let profile = TestCertificates.profile(dnsNames: [pattern], ipAddresses: [])
        let error = try Self.refusal(identity: Self.root.get().issue(profile), serverName: asked)
        #expect(error?.verification == .nameMismatch)
    }

    @Test func aWildcardForOneWholeLabelIsGood() throws {
        let profile = TestCertificates.profile(dnsNames: ["*.push.example.com"], ipAddresses: [])
        #expect(try Self.refusal(identity: Self.root.get().issue(profile), serverName: "api.push.example.com") == nil)
    }

    @Test func expired() throws {
        let identity = try Self.root.get().issue(TestCertificates.profile(validity: TestCertificates.over))
        #expect(try Self.refusal(identity: identity)?.verification == .expired)
    }

    @Test func notYetValid() throws {
        let identity = try Self.root.get().issue(TestCertificates.profile(validity: TestCertificates.toCome))
        #expect(try Self.refusal(identity: identity)?.verification == .notYetValid)
    }

    @Test func selfSigned() throws {
        let made = try OpenSSLTool.run([
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost", "-days", "2", "-keyout", "/dev/stdout",
        ])
        let identity = try TLSIdentity(certificateChainPEM: made.text, privateKeyPEM: made.text)
        #expect(try Self.refusal(identity: identity)?.verification == .selfSigned)
        // Trusted by name it is its own authority.
        #expect(try Self.refusal(identity: identity, trust: .pem(identity.certificateChainPEM)) == nil)
    }

    @Test func unknownAuthority() throws {
        let identity = try TestCertificates.authority("Stranger").issue(TestCertificates.profile())
        #expect(try Self.refusal(identity: identity)?.verification == .unknownIssuer)
        #expect(try Self.refusal(identity: identity, trust: .system)?.verification == .unknownIssuer)
    }

    @Test func anAuthorityOfTheSameNameIsStillUnknown() throws {
        let identity = try TestCertificates.authority().issue(TestCertificates.profile())
        #expect(try Self.refusal(identity: identity) != nil)
    }

    @Test func missingIntermediate() throws {
        let authority = try Self.root.get().intermediate(name: "Intermediate", validity: TestCertificates.valid)
        let identity = try authority.issue(TestCertificates.profile())
        #expect(try Self.refusal(identity: identity) == nil)
        let alone = try TLSIdentity(
            certificateChainPEM: identity.certificate.pem,
            privateKeyPEM: identity.privateKeyPEM,
        )
        #expect(try Self.refusal(identity: alone)?.verification == .unknownIssuer)
    }

    @Test func aLeafIsNoAuthority() throws {
        // A server's certificate that was used to sign another one.
        let folder = try TemporaryFolder()
        let leaf = try Self.root.get().issue(TestCertificates.profile())
        let issuer = try folder.write("leaf.pem", leaf.certificate.pem)
        let key = try folder.write("leaf.key", leaf.privateKeyPEM)
        let request = try folder.write(
            "forged.csr",
            OpenSSLTool.run([
                "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=bank",
                "-addext", "subjectAltName=DNS:localhost", "-keyout", folder.path + "/forged.key",
            ]).text,
        )
        let forged = try OpenSSLTool.run([
            "x509", "-req", "-in", request, "-CA", issuer, "-CAkey", key, "-copy_extensions", "copy", "-days", "2",
        ])
        let identity = try TLSIdentity(
            certificateChainPEM: forged.text + leaf.certificate.pem,
            privateKeyPEM: OpenSSLTool.run(["pkey", "-in", folder.path + "/forged.key"]).text,
        )
        #expect(try Self.refusal(identity: identity)?.verification == .invalidPurpose)
    }

    @Test func aClientsCertificateIsNotAServers() throws {
        let identity = try Self.root.get().issue(TestCertificates.profile(.client))
        #expect(try Self.refusal(identity: identity)?.verification == .invalidPurpose)
    }

    // MARK: Application protocols

    @Test func noCommonApplicationProtocol() throws {
        let identity = try Self.root.get().issue(TestCertificates.profile())
        let trust = TLSTrust.pem(try Self.root.get().certificatePEM)
        let pair = try EnginePair(
            client: .client(trust: trust, alpn: ["h2"]),
            server: .server(identity: identity, alpn: ["http/1.1"]),
        )
        let errors = pair.refusals()
        #expect(errors.client?.code == .noCommonApplicationProtocol)
        #expect(errors.server?.code == .noCommonApplicationProtocol)
    }

    @Test func aServerWithoutALPNIsNotTakenForHTTP2() throws {
        let identity = try Self.root.get().issue(TestCertificates.profile())
        let trust = TLSTrust.pem(try Self.root.get().certificatePEM)
        let pair = try EnginePair(client: .client(trust: trust, alpn: ["h2"]), server: .server(identity: identity))
        let errors = pair.refusals()
        #expect(errors.client?.code == .noCommonApplicationProtocol)
        #expect(pair.client.state == .failed)
        #expect(errors.server == nil)
        #expect(pair.server.state == .closedByPeer)
    }

    @Test func aClientWithoutALPNIsServed() throws {
        let identity = try Self.root.get().issue(TestCertificates.profile())
        let trust = TLSTrust.pem(try Self.root.get().certificatePEM)
        let pair = try EnginePair(client: .client(trust: trust), server: .server(identity: identity, alpn: ["h2"]))
        try pair.shakeHands()
        #expect(pair.server.state == .open)
        #expect(pair.server.handshake?.alpn == nil)
    }

    // MARK: Clients' certificates

    static func mutual(
        client: TLSIdentity?,
        required: Bool = true,
    ) throws -> (pair: EnginePair, client: TLSError?, server: TLSError?) {
        let root = try self.root.get()
        let pair = try EnginePair(
            client: .client(trust: .pem(root.certificatePEM), certificate: client),
            server: .server(
                identity: root.issue(TestCertificates.profile()),
                clientCA: .pem(root.certificatePEM),
                requiresClientCertificate: required,
            ),
        )
        let errors = pair.refusals()
        return (pair, errors.client, errors.server)
    }

    @Test func aClientProvesWhoItIs() throws {
        let profile = TestCertificates.profile(.client, userID: "com.example.app")
        let identity = try Self.root.get().issue(profile)
        let again = try TLSIdentity(pkcs12: identity.pkcs12(password: "p"), password: "p")
        for identity in [identity, again] {
            let result = try Self.mutual(client: identity)
            #expect(result.client == nil)
            #expect(result.server == nil)
            #expect(result.pair.server.handshake?.peerCertificate?.userID == "com.example.app")
        }
    }

    @Test func aClientWithoutACertificateIsRefused() throws {
        let result = try Self.mutual(client: nil)
        #expect(result.server?.code == .certificateVerificationFailed)
        #expect(result.server?.verification == .missing)
        #expect(result.client?.code == .peerAlert && result.client?.certificateAlert == "certificate_required")
        let optional = try Self.mutual(client: nil, required: false)
        #expect(optional.server == nil)
        #expect(optional.pair.server.handshake?.peerCertificate == nil)
    }

    @Test func aClientOfAnotherAuthorityIsRefused() throws {
        let stranger = try TestCertificates.authority("Stranger").issue(TestCertificates.profile(.client))
        for required in [true, false] {
            let result = try Self.mutual(client: stranger, required: required)
            #expect(result.server?.verification == .unknownIssuer)
            #expect(result.client?.code == .peerAlert && result.client?.certificateAlert == "unknown_ca")
        }
        let expired = try Self.root.get().issue(TestCertificates.profile(.client, validity: TestCertificates.over))
        #expect(try Self.mutual(client: expired).server?.verification == .expired)
    }

    // MARK: Contexts

    @Test func trustThatCannotBeReadIsAnError() throws {
        let folder = try TemporaryFolder()
        let empty = try folder.write("empty.pem", "nothing")
        #expect(KeyTests.code { _ = try TLSContext.client(trust: .file(empty)) } == .trustUnavailable)
        #expect(KeyTests.code { _ = try TLSContext.client(trust: .file(folder.path + "/none")) } == .trustUnavailable)
        #expect(KeyTests.code { _ = try TLSContext.client(trust: .pem("nothing")) } == .invalidCertificate)
    }

    @Test func trustMayBeAFile() throws {
        let folder = try TemporaryFolder()
        let path = try folder.write("root.pem", Self.root.get().certificatePEM)
        let identity = try Self.root.get().issue(TestCertificates.profile())
        #expect(try Self.refusal(identity: identity, trust: .file(path)) == nil)
    }
}
