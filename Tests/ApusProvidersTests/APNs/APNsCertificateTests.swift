import ApusAPNs
import ApusCore
import ApusMessages
import ApusProviders
import ApusTLS
import NIOCore
import NIOPosix
import Testing

@Suite struct APNsCertificateTests {
    private static let now = UnixMilliseconds(1_700_000_000_000)

    private static func identity(
        _ topics: [String] = ["com.example.shop", "com.example.shop.voip"],
        environments: Set<ProviderEnvironment> = [.production, .sandbox],
    ) throws -> TLSIdentity {
        let validity = CertificateValidity(days: 30, from: Self.now)
        let authority = try CertificateAuthority(name: "Apple", validity: validity)
        var profile = CertificateProfile(.client, commonName: "Push", userID: topics.first, validity: validity)
        profile.extensions = AppleCertificate.extensions(topics: topics, environments: environments)
        return try authority.issue(profile)
    }

    private static func certificate(_ identity: TLSIdentity, topics: [String]? = nil) throws -> APNsCertificate {
        let pem = identity.certificateChainPEM + identity.privateKeyPEM
        return try APNsCertificate(file: Array(pem.utf8), key: nil, password: nil, topics: topics)
    }

    private static func reason(_ body: () throws -> Void) -> String? {
        do {
            try body()
            return nil
        } catch {
            return "\(error)"
        }
    }

    @Test func `A certificate is read from PEM in one file or two, and from PKCS#12`() throws {
        let identity = try Self.identity()
        let expiry = Self.now.advanced(byMilliseconds: 30 * 86_400_000)
        let apart = try APNsCertificate(
            file: Array(identity.certificateChainPEM.utf8),
            key: Array(identity.privateKeyPEM.utf8),
            password: nil,
            topics: nil,
        )
        let packed = try APNsCertificate(
            file: try identity.pkcs12(password: "secret"),
            key: nil,
            password: Array("secret\n".utf8),
            topics: nil,
        )
        for read in [try Self.certificate(identity), apart, packed] {
            #expect(read.expiresAt == expiry && read.name == "certificate Push")
            #expect(read.scope == .topics(["com.example.shop", "com.example.shop.voip"]))
            #expect(read.identity.certificate.der == identity.certificate.der)
        }
        let file = try identity.pkcs12(password: "secret")
        let wrong = Self.reason { _ = try APNsCertificate(file: file, key: nil, password: nil, topics: nil) }
        #expect(wrong?.hasPrefix("the certificate cannot be read: ") == true && wrong?.contains("password") == true)
        let empty = Self.reason { _ = try APNsCertificate(file: [], key: nil, password: nil, topics: nil) }
        #expect(empty?.hasPrefix("the certificate cannot be read: ") == true)
    }

    @Test func `A certificate for another app or environment is refused with a reason`() throws {
        let certificate = try Self.certificate(Self.identity(environments: [.production]))
        try certificate.check(bundleID: "com.example.shop", environment: .production)
        let other = Self.reason { try certificate.check(bundleID: "com.example.other", environment: .production) }
        #expect(
            other == "the certificate is for com.example.shop, com.example.shop.voip, not for com.example.other"
        )
        let sandbox = Self.reason { try certificate.check(bundleID: "com.example.shop", environment: .sandbox) }
        #expect(sandbox?.contains("not for Apple's sandbox environment") == true)
        let named = try Self.certificate(Self.identity(), topics: ["com.example.other"])
        try named.check(bundleID: "com.example.other", environment: .sandbox)
        #expect(named.scope == .topics(["com.example.other"]))
    }

    @Test func `Connections present a certificate also when this machine's clock calls it expired`() async throws {
        let certificate = try Self.certificate(Self.identity())
        #expect(certificate.expiresAt < TestClock().now())
        let credential = APNsCertificateCredential(certificate)
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        guard case .connection = try await credential.grant(on: loop).get() else {
            Issue.record("it is not shown")
            return
        }
        #expect(credential.expiresAt == certificate.expiresAt)
    }

    @Test func `A certificate is checked with any topic that it serves`() throws {
        let renderer = try APNsRenderer(bundleID: "a.b")
        let context = RenderContext(send: try SendID("probe"), publishedAt: Self.now, now: Self.now)
        func topic(_ scope: APNsTopicScope) throws -> String {
            let notification = CredentialProbe.notification(for: scope, of: "a.b")
            return try renderer.render(notification, context: context).base.topic
        }
        for type in APNsPushType.allCases {
            let own = type.topic(bundleID: "a.b")
            #expect(try topic(.topics([own])) == own)
        }
        #expect(try topic(.topics(["a.b.voip", "a.b"])) == "a.b")
        #expect(try topic(.team) == "a.b" && topic(.bundleIDs(["a.b"])) == "a.b")
        #expect(try topic(.topics(["other"])) == "a.b", "and Apple says no")
    }

    @Test func `A push kind that a credential does not serve is refused before it is sent`() {
        func refusal(_ scope: APNsTopicScope, _ kind: Notification.Kind, of bundleID: String = "a.b") -> String? {
            do {
                try scope.check(kind, of: bundleID)
                return nil
            } catch {
                return "\(error.code) \(error.field): \(error.detail)"
            }
        }
        for kind in Notification.Kind.allCases {
            #expect(refusal(.team, kind) == nil)
            #expect(refusal(.bundleIDs(["a.b"]), kind) == nil)
            #expect(refusal(.bundleIDs(["a.b"]), kind, of: "a.c") != nil)
        }
        #expect(refusal(.topics(["a.b", "a.b.voip"]), .voip) == nil)
        #expect(refusal(.topics(["a.b", "a.b.voip"]), .alert) == nil)
        #expect(
            refusal(.topics(["a.b", "a.b.voip"]), .location)
                == "topic_not_served notification.kind: needs the topic a.b.location-query; "
                + "the app's credential serves a.b, a.b.voip"
        )
    }
}
