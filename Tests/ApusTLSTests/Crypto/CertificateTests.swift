import ApusCore
import ApusTLS
import ApusTestKit
import Testing

@Suite struct CertificateTests {
    static let now = UnixMilliseconds(seconds: 1_750_000_000)
    static let month = CertificateValidity(from: now, until: now.advanced(byMilliseconds: 30 * 86_400_000))

    @Test func openSSLVerifiesAnIssuedChain() throws {
        let folder = try TemporaryFolder()
        let root = try CertificateAuthority(name: "Root", validity: Self.month)
        let intermediate = try root.intermediate(name: "Intermediate", validity: Self.month)
        let identity = try intermediate.issue(
            CertificateProfile(
                .server,
                commonName: "localhost",
                dnsNames: ["localhost", "*.example.com"],
                ipAddresses: ["127.0.0.1", "::1"],
                validity: Self.month,
            )
        )
        #expect(identity.certificates.count == 2)
        let trust = try folder.write("root.pem", root.certificatePEM)
        let chain = try folder.write("chain.pem", intermediate.certificatePEM)
        let leaf = try folder.write("leaf.pem", identity.certificate.pem)
        let at = "\(Self.now.seconds + 60)"
        let common = ["verify", "-x509_strict", "-attime", at, "-CAfile", trust, "-untrusted", chain]
        #expect(try OpenSSLTool.run(common + ["-purpose", "sslserver", leaf]).text.hasSuffix(": OK\n"))
        #expect(try OpenSSLTool.run(common + ["-verify_ip", "::1", leaf]).text.hasSuffix(": OK\n"))
        #expect(try OpenSSLTool.run(common + ["-verify_hostname", "a.example.com", leaf]).text.hasSuffix(": OK\n"))
        let client = try OpenSSLTool.run(common + ["-purpose", "sslclient", leaf], mayFail: true)
        #expect(client.errors.contains("unsupported certificate purpose") || client.errors.contains("unsuitable"))
    }

    @Test func aCertificateSaysWhatItIsFor() throws {
        let authority = try CertificateAuthority(name: "Root", validity: Self.month)
        let identity = try authority.issue(
            CertificateProfile(
                .client,
                commonName: "Push: com.example.app",
                userID: "com.example.app",
                validity: Self.month
            )
        )
        let certificate = try Certificate(pem: identity.certificateChainPEM)
        let windows = identity.certificateChainPEM.replacing("\n", with: "\r\n")
        #expect(throws: Never.self) {
            try TLSIdentity(certificateChainPEM: windows, privateKeyPEM: identity.privateKeyPEM)
        }
        #expect(certificate.commonName == "Push: com.example.app")
        #expect(certificate.userID == "com.example.app")
        #expect(certificate.notBefore == Self.month.notBefore)
        #expect(certificate.notAfter == Self.month.notAfter)
        #expect(certificate.der == identity.certificate.der)
        #expect(try Certificate(pem: authority.certificatePEM).userID == nil)
    }

    @Test func aCertificateOfApplesNamesItsTopicsAndEnvironments() throws {
        let authority = try CertificateAuthority(name: "Root", validity: Self.month)
        func read(_ extensions: [CertificateExtension], userID: String? = "a.b") throws -> AppleCertificate {
            var profile = CertificateProfile(.client, commonName: "Push", userID: userID, validity: Self.month)
            profile.extensions = extensions
            return AppleCertificate(try authority.issue(profile).certificate)
        }
        let topics = ["a.b", "a.b.voip", "a.b." + String(repeating: "c", count: 300)]
        let whole = try read(AppleCertificate.extensions(topics: topics, environments: [.sandbox]))
        #expect(whole.topics == topics && whole.environments == [.sandbox])
        let both = try read(AppleCertificate.extensions(topics: [], environments: [.sandbox, .production]))
        #expect(both.topics == ["a.b"] && both.environments == [.sandbox, .production])
        #expect(try read([]).environments == [.sandbox, .production])
        #expect(try read([], userID: nil).topics == [])
        // Broken lists name what they name before they break, and nothing else.
        let broken: [[UInt8]] = [
            [], [0x30], [0x30, 0x80], [0x30, 0x84, 1, 1, 1, 1], [0x30, 5, 0x0c, 9, 0x41], [0x30, 2, 0x0c, 0x7f],
        ]
        for value in broken {
            let list = CertificateExtension(identifier: "1.2.840.113635.100.6.3.6", value: value)
            #expect(try read([list]).topics == ["a.b"], "\(value)")
        }
    }

    @Test func anIdentitySurvivesPEM() throws {
        let identity = try Self.identity()
        let again = try TLSIdentity(
            certificateChainPEM: identity.certificateChainPEM,
            privateKeyPEM: identity.privateKeyPEM,
        )
        #expect(again.certificateChainPEM == identity.certificateChainPEM)
        #expect(again.privateKeyPEM == identity.privateKeyPEM)
    }

    @Test func aKeyOfAnotherCertificateIsRefused() throws {
        let identity = try Self.identity()
        let other = try PrivateKey.generate(.p256).pem
        let code = KeyTests.code {
            _ = try TLSIdentity(certificateChainPEM: identity.certificateChainPEM, privateKeyPEM: other)
        }
        #expect(code == .invalidCertificate)
    }

    @Test func aBrokenChainIsRefused() throws {
        let identity = try Self.identity()
        let key = identity.privateKeyPEM
        let chain = identity.certificateChainPEM
        let broken = chain.replacing("-----END CERTIFICATE-----", with: "")
        for text in [
            "", "hello", broken, chain + broken,
            chain + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            let code = KeyTests.code { _ = try TLSIdentity(certificateChainPEM: text, privateKeyPEM: key) }
            #expect(code == .invalidCertificate)
        }
    }

    @Test func anIdentitySurvivesPKCS12() throws {
        let identity = try Self.identity()
        let file = try identity.pkcs12(password: "secret")
        let again = try TLSIdentity(pkcs12: file, password: "secret")
        #expect(again.certificateChainPEM == identity.certificateChainPEM)
        #expect(again.privateKeyPEM == identity.privateKeyPEM)
        #expect(KeyTests.code { _ = try TLSIdentity(pkcs12: file, password: "wrong") } == .invalidPKCS12)
        #expect(
            KeyTests.code { _ = try TLSIdentity(pkcs12: Array(file.dropLast(9)), password: "secret") } == .invalidPKCS12
        )
        #expect(KeyTests.code { _ = try TLSIdentity(pkcs12: [], password: "") } == .invalidPKCS12)
        let long = [UInt8](repeating: 0x30, count: TLSIdentity.pkcs12BytesMax + 1)
        #expect(KeyTests.code { _ = try TLSIdentity(pkcs12: long, password: "") } == .invalidPKCS12)
    }

    @Test(arguments: [["-legacy"], [], ["-keypbe", "NONE", "-certpbe", "NONE"]])
    func openSSLsPKCS12FilesAreRead(options: [String]) throws {
        let folder = try TemporaryFolder()
        let identity = try Self.identity()
        let pem = try folder.write("all.pem", identity.certificateChainPEM + identity.privateKeyPEM)
        let file = try OpenSSLTool.run(
            ["pkcs12", "-export", "-in", pem, "-passout", "pass:old", "-name", "x"] + options
        )
        let again = try TLSIdentity(pkcs12: file.bytes, password: "old")
        #expect(again.certificateChainPEM == identity.certificateChainPEM)
        #expect(again.privateKeyPEM == identity.privateKeyPEM)
    }

    @Test func aPKCS12FileWithoutAKeyIsRefused() throws {
        let folder = try TemporaryFolder()
        let pem = try folder.write("all.pem", Self.identity().certificateChainPEM)
        let file = try OpenSSLTool.run(["pkcs12", "-export", "-nokeys", "-in", pem, "-passout", "pass:x"])
        #expect(KeyTests.code { _ = try TLSIdentity(pkcs12: file.bytes, password: "x") } == .invalidPKCS12)
    }

    static func identity() throws -> TLSIdentity {
        let root = try CertificateAuthority(name: "Root", validity: Self.month)
        let intermediate = try root.intermediate(name: "Intermediate", validity: Self.month)
        return try intermediate.issue(
            CertificateProfile(.server, commonName: "localhost", dnsNames: ["localhost"], validity: Self.month)
        )
    }
}
