import ApusCore
import ApusTLS
import ApusTestKit
import Testing

@Suite struct JWSTests {
    static let secret = [UInt8]("0123456789abcdef0123456789abcdef".utf8)

    static func ecPublicKey() throws -> PublicKey {
        try PublicKey(x: #require(Base64URL.decode(Vectors.ecX)), y: #require(Base64URL.decode(Vectors.ecY)))
    }

    static func ecPrivateKey() throws -> PrivateKey {
        try PrivateKey(p256Scalar: #require(Base64URL.decode(Vectors.p256Scalar)))
    }

    static func rsaPublicKey() throws -> PublicKey {
        try PublicKey(
            modulus: #require(Base64URL.decode(Vectors.rsaModulus)),
            exponent: #require(Base64URL.decode(Vectors.rsaExponent)),
        )
    }

    // MARK: Vectors

    @Test func theES256TokenOfTheRFCIsVerified() throws {
        let contents = try JWS.verify(Vectors.es256Token, algorithm: .es256, key: .publicKey(Self.ecPublicKey()))
        #expect(contents.header == Array(#"{"alg":"ES256"}"#.utf8))
        #expect(contents.payload == Array(Vectors.joePayload.utf8))
        #expect(contents.keyID == nil)
    }

    @Test func aTokenOfAPNsShapeIsVerified() throws {
        let contents = try JWS.verify(Vectors.apnsToken, algorithm: .es256, key: .publicKey(Self.ecPublicKey()))
        #expect(contents.keyID == "ABC123DEFG")
        #expect(contents.payload == Array(#"{"iss":"DEF123GHIJ","iat":1437179036}"#.utf8))
    }

    @Test func theVAPIDTokenOfTheRFCIsVerified() throws {
        let key = try PublicKey(uncompressedPoint: #require(Base64URL.decode(Vectors.vapidKey)))
        let contents = try JWS.verify(Vectors.vapidToken, algorithm: .es256, key: .publicKey(key))
        #expect(String(decoding: contents.payload, as: UTF8.self).contains(#""aud":"https://push.example.net""#))
    }

    @Test func theRS256TokenOfTheRFCIsVerifiedAndMadeAgain() throws {
        let contents = try JWS.verify(Vectors.rs256Token, algorithm: .rs256, key: .publicKey(Self.rsaPublicKey()))
        #expect(contents.payload == Array(Vectors.joePayload.utf8))
        let key = try PrivateKey(pem: Vectors.rsaKeyPEM)
        let token = try JWS.sign(
            header: #"{"alg":"RS256"}"#,
            payload: Vectors.joePayload,
            with: .privateKey(key),
        )
        #expect(token == Vectors.rs256Token)
    }

    @Test func theOAuthAssertionIsTheSameToTheByte() throws {
        let key = try PrivateKey(pem: Vectors.rsaKeyPEM)
        let token = try JWS.sign(
            header: Vectors.assertionHeader,
            payload: Vectors.assertionClaims,
            with: .privateKey(key),
        )
        #expect(token == Vectors.assertion)
    }

    // RFC 7515 A.1.
    @Test func theHS256TokenOfTheRFCIsVerifiedAndMadeAgain() throws {
        let secret = try #require(
            Base64URL.decode(
                "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"
            )
        )
        let expected =
            "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9l"
            + "eGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
        let header = "{\"typ\":\"JWT\",\r\n \"alg\":\"HS256\"}"
        let token = try JWS.sign(header: header, payload: Vectors.joePayload, with: .sharedSecret(secret))
        #expect(token == expected)
        #expect(try JWS.verify(token, algorithm: .hs256, key: .sharedSecret(secret)).header == Array(header.utf8))
    }

    // MARK: Round trips

    @Test func everyES256SignatureHas64BytesAndVerifies() throws {
        let key = try Self.ecPrivateKey()
        // Enough draws to meet R or S with leading zeros.
        for number in 0..<300 {
            let token = try JWS.sign(header: #"{"alg":"ES256"}"#, payload: "\(number)", with: .privateKey(key))
            let signature = try #require(token.split(separator: ".").last.flatMap { Base64URL.decode($0) })
            #expect(signature.count == 64)
            let contents = try JWS.verify(token, algorithm: .es256, key: .publicKey(key.publicKey))
            #expect(contents.payload == Array("\(number)".utf8))
        }
    }

    @Test func openSSLAcceptsWhatIsSigned() throws {
        let folder = try TemporaryFolder()
        let key = try PrivateKey.generate(.rsa2048)
        let token = try JWS.sign(header: #"{"alg":"RS256"}"#, payload: "{}", with: .privateKey(key))
        let parts = token.split(separator: ".")
        let signature = try folder.write("signature", #require(Base64URL.decode(parts[2])))
        let signed = try folder.write("signed", parts[0] + "." + parts[1])
        let pem = try folder.write("key", key.publicKey.pem)
        let answer = try OpenSSLTool.run(["dgst", "-sha256", "-verify", pem, "-signature", signature, signed])
        #expect(answer.text == "Verified OK\n")
    }

    @Test func aTokenSignedByOpenSSLIsVerified() throws {
        let folder = try TemporaryFolder()
        let key = try PrivateKey.generate(.rsa2048)
        let text = Base64URL.encode(Array(#"{"alg":"RS256","kid":"k"}"#.utf8)) + "." + Base64URL.encode([1, 2, 3])
        let signed = try folder.write("signed", text)
        let pem = try folder.write("key", key.pem)
        let signature = try OpenSSLTool.run(["dgst", "-sha256", "-sign", pem, "-binary", signed]).bytes
        let token = text + "." + Base64URL.encode(signature)
        let contents = try JWS.verify(token, algorithm: .rs256, key: .publicKey(key.publicKey))
        #expect(contents.keyID == "k")
        #expect(contents.payload == [1, 2, 3])
    }

    // MARK: Refusals

    @Test func theTokenNeverChoosesTheAlgorithm() throws {
        let publicKey = try Self.rsaPublicKey()
        // The classic: an RSA public key used as an HMAC secret.
        let forged = try JWS.sign(
            header: #"{"alg":"HS256"}"#,
            payload: "{}",
            with: .sharedSecret(Array(publicKey.pem.utf8)),
        )
        #expect(Self.refusal(forged, .rs256, .publicKey(publicKey)) == .tokenAlgorithmWrong)
        let none = Base64URL.encode(Array(#"{"alg":"none"}"#.utf8)) + ".e30."
        #expect(Self.refusal(none, .rs256, .publicKey(publicKey)) == .tokenAlgorithmWrong)
        #expect(Self.refusal("e30.e30.", .rs256, .publicKey(publicKey)) == .tokenAlgorithmWrong)
        #expect(Self.refusal(Vectors.es256Token, .rs256, .publicKey(publicKey)) == .tokenAlgorithmWrong)
        #expect(Self.refusal(Vectors.rs256Token, .es256, .publicKey(publicKey)) == .keyUnsuitable)
        #expect(Self.refusal(Vectors.rs256Token, .hs256, .publicKey(publicKey)) == .keyUnsuitable)
    }

    @Test func anAlteredTokenIsRefusedWhereverItIsAltered() throws {
        let secret = VerificationKey.sharedSecret(Self.secret)
        let hs256 = try JWS.sign(header: #"{"alg":"HS256"}"#, payload: "{}", with: .sharedSecret(Self.secret))
        let tokens: [(String, JWSAlgorithm, VerificationKey)] = [
            (Vectors.es256Token, .es256, .publicKey(try Self.ecPublicKey())),
            (Vectors.rs256Token, .rs256, .publicKey(try Self.rsaPublicKey())),
            (hs256, .hs256, secret),
        ]
        for (token, algorithm, key) in tokens {
            for index in token.indices {
                var altered = token
                altered.replaceSubrange(index...index, with: token[index] == "A" ? "B" : "A")
                #expect(Self.refusal(altered, algorithm, key) != nil, "at \(index) of \(token)")
            }
        }
    }

    @Test func aTruncatedTokenIsRefused() throws {
        let key = VerificationKey.publicKey(try Self.ecPublicKey())
        for count in 0..<Vectors.es256Token.count {
            #expect(Self.refusal(String(Vectors.es256Token.prefix(count)), .es256, key) != nil, "\(count)")
        }
        #expect(Self.refusal(Vectors.es256Token + ".", .es256, key) == .tokenMalformed)
        #expect(Self.refusal(Vectors.es256Token + "==", .es256, key) == .tokenMalformed)
        #expect(Self.refusal(Vectors.es256Token + "AAAA", .es256, key) == .tokenSignatureWrong)
    }

    @Test func aSignatureInDERIsNotAnES256Signature() throws {
        let folder = try TemporaryFolder()
        let key = try PrivateKey.generate(.p256)
        let text = Base64URL.encode(Array(#"{"alg":"ES256"}"#.utf8)) + ".e30"
        let signed = try folder.write("signed", text)
        let pem = try folder.write("key", key.pem)
        let der = try OpenSSLTool.run(["dgst", "-sha256", "-sign", pem, "-binary", signed]).bytes
        let token = text + "." + Base64URL.encode(der)
        #expect(Self.refusal(token, .es256, .publicKey(key.publicKey)) == .tokenSignatureWrong)
        let zeros = text + "." + Base64URL.encode([UInt8](repeating: 0, count: 64))
        #expect(Self.refusal(zeros, .es256, .publicKey(key.publicKey)) == .tokenSignatureWrong)
    }

    @Test func anotherKeyDoesNotVerify() throws {
        let other = try PrivateKey.generate(.p256).publicKey
        #expect(Self.refusal(Vectors.es256Token, .es256, .publicKey(other)) == .tokenSignatureWrong)
    }

    @Test func aShortSecretIsRefused() throws {
        let short = [UInt8](repeating: 7, count: JWS.sharedSecretBytesMin - 1)
        #expect(
            KeyTests.code { _ = try JWS.sign(header: #"{"alg":"HS256"}"#, payload: "{}", with: .sharedSecret(short)) }
                == .keyUnsuitable
        )
        let token = try JWS.sign(header: #"{"alg":"HS256"}"#, payload: "{}", with: .sharedSecret(Self.secret))
        #expect(Self.refusal(token, .hs256, .sharedSecret(short)) == .keyUnsuitable)
    }

    @Test func theHeaderMustNameTheKeysAlgorithm() throws {
        let key = SigningKey.privateKey(try Self.ecPrivateKey())
        #expect(
            KeyTests.code { _ = try JWS.sign(header: #"{"alg":"RS256"}"#, payload: "{}", with: key) }
                == .tokenAlgorithmWrong
        )
    }

    @Test func aTokenAtTheLimitIsReadAndOnePastItIsNot() throws {
        let header = #"{"alg":"HS256"}"#
        let around = try JWS.sign(header: header, payload: "", with: .sharedSecret(Self.secret)).utf8.count
        let payloadBytes = (JWS.tokenBytesMax - around) / 4 * 3
        for (extra, expected) in [(0, nil), (3, TLSError.Code.tokenMalformed)] {
            let payload = String(repeating: "x", count: payloadBytes + extra)
            let token = try JWS.sign(header: header, payload: payload, with: .sharedSecret(Self.secret))
            #expect(Self.refusal(token, .hs256, .sharedSecret(Self.secret)) == expected)
        }
    }

    static func refusal(_ token: String, _ algorithm: JWSAlgorithm, _ key: VerificationKey) -> TLSError.Code? {
        KeyTests.code { _ = try JWS.verify(token, algorithm: algorithm, key: key) }
    }
}
