import ApusAPNs
import ApusCore
import ApusProviders
import ApusTLS
import ApusTestKit
import Testing

@Suite("APNs: provider keys")
struct APNsProviderKeyTests {
    private func example() throws -> (key: PrivateKey, provider: APNsProviderKey) {
        let scalar = try #require(Base64URL.decode(Vectors.p256Scalar))
        let key = try PrivateKey(p256Scalar: scalar)
        return (key, try APNsProviderKey(keyID: "ABC123DEFG", teamID: "DEF123GHIJ", pem: Array(key.pem.utf8)))
    }

    @Test("a token has the header and claims of vector F1, and verifies")
    func sign() throws {
        let (key, provider) = try self.example()
        let token = try provider.sign(issuedAt: UnixMilliseconds(1_437_179_036_999))
        let front = "eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyM0RFRkcifQ.eyJpc3MiOiJERUYxMjNHSElKIiwiaWF0IjoxNDM3MTc5MDM2fQ."
        #expect(token.text.hasPrefix(front))
        #expect(token.text.utf8.count == front.utf8.count + 86)
        #expect(token.issuedAt == UnixMilliseconds(seconds: 1_437_179_036))
        #expect(token.authorization == "bearer \(token.text)")
        let contents = try JWS.verify(token.text, algorithm: .es256, key: .publicKey(key.publicKey))
        #expect(contents.payload == Array(#"{"iss":"DEF123GHIJ","iat":1437179036}"#.utf8))
    }

    @Test("a shared token is taken only if it is of this key and team")
    func shared() throws {
        let token = try self.example().provider.sign(issuedAt: UnixMilliseconds(seconds: 1_437_179_036))
        #expect(APNsProviderToken(shared: token.text, keyID: "ABC123DEFG", teamID: "DEF123GHIJ") == token)
        #expect(APNsProviderToken(shared: token.text, keyID: "ABC123DEFH", teamID: "DEF123GHIJ") == nil)
        #expect(APNsProviderToken(shared: token.text, keyID: "ABC123DEFG", teamID: "DEF123GHIK") == nil)
        for text in [
            "", "a.b.c", token.text + ".x", token.text + "\r\n", String(token.text.dropLast(2)), "..",
            String(repeating: "a", count: 5_000),
        ] {
            #expect(APNsProviderToken(shared: text, keyID: "ABC123DEFG", teamID: "DEF123GHIJ") == nil)
        }
    }

    @Test("what is not such a key is refused with a reason")
    func refusals() throws {
        func code(_ make: () throws -> Void) -> ProvidersError.Code? {
            do {
                try make()
                return nil
            } catch {
                return (error as? ProvidersError)?.code
            }
        }
        let key = try self.example().key
        for id in ["", "abc123defg", "ABC123DEF", "ABC123DEFGH", "ABC123DE\r\n"] {
            #expect(code { _ = try APNsProviderKey(keyID: id, teamID: "DEF123GHIJ", key: key) } == .invalidIdentifier)
            #expect(code { _ = try APNsProviderKey(keyID: "ABC123DEFG", teamID: id, key: key) } == .invalidIdentifier)
        }
        let rsa = Array(Vectors.rsaKeyPEM.utf8)
        #expect(code { _ = try APNsProviderKey(keyID: "ABC123DEFG", teamID: "DEF123GHIJ", pem: rsa) } == .unsuitableKey)
        #expect(
            code { _ = try APNsProviderKey(keyID: "ABC123DEFG", teamID: "DEF123GHIJ", pem: [0x41]) } == .unreadableKey
        )
    }
}
