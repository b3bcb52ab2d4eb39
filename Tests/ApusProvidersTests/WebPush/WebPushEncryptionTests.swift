import ApusCore
import ApusTLS
import ApusWebPush
import Testing

@Suite("Web Push: encryption")
struct WebPushEncryptionTests {
    /// RFC 8291 §5 and Appendix A.
    private enum Vector {
        static let plaintext = "When I grow up, I want to be a watermelon"
        static let ourPrivate = "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"
        static let theirPrivate = "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"
        static let theirPublic =
            "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
        static let secret = "BTBZMqHH6r4Tts7J_aSIgg"
        static let salt = "DGv6ra1nlYgDCS1FRnbzlw"
        static let body =
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEq"
            + "KK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
        static let bodyOfNothing =
            "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEq"
            + "KK6PBru3jl7A-nWA9JFLVeQ32ERULH8YEUcA"
        static let digestOfLongest = "a9e84efbfe3cbbd3deb4e24870b13d42f4657b35bbdc6c279af04a8055d14354"
    }

    private func bytes(_ text: String) throws -> [UInt8] { try #require(Base64URL.decode(text)) }

    private func keys() throws -> WebPushKeys {
        try #require(WebPushKeys(publicKey: self.bytes(Vector.theirPublic), secret: self.bytes(Vector.secret)))
    }

    private func encrypt(_ content: [UInt8]) throws -> [UInt8] {
        let agreement = try EphemeralAgreement(
            with: self.bytes(Vector.theirPublic),
            privateKey: self.bytes(Vector.ourPrivate),
        )
        return WebPushEncryption.encrypt(
            content,
            to: try self.keys(),
            agreement: agreement,
            salt: try self.bytes(Vector.salt),
        )
    }

    @Test("D84 the keys of RFC 8291's example make its body, byte for byte")
    func example() throws {
        #expect(Base64URL.encode(try self.encrypt(Array(Vector.plaintext.utf8))) == Vector.body)
        #expect(Base64URL.encode(try self.encrypt([])) == Vector.bodyOfNothing)
    }

    @Test("D85 the receiver of the example decrypts it, and an altered byte is noticed")
    func receiver() throws {
        let receiver = try TestBrowser(privateKey: self.bytes(Vector.theirPrivate), secret: self.bytes(Vector.secret))
        var body = try self.bytes(Vector.body)
        #expect(try receiver.decrypt(body) == Array(Vector.plaintext.utf8))
        body[body.count - 20] ^= 1
        #expect(throws: TLSError.self) { try receiver.decrypt(body) }
    }

    @Test("D86 the longest content fills the body to the byte")
    func longest() throws {
        #expect(WebPushEncryption.contentBytesMax == 3_993)
        let body = try self.encrypt([UInt8](repeating: 0x61, count: 3_993))
        #expect(body.count == WebPushEncryption.bodyBytesMax)
        #expect(Hexadecimal.encode(SHA256.hash(body)) == Vector.digestOfLongest)
    }

    @Test("D87 the same content twice has two salts and two keys, and the browser reads both")
    func fresh() throws {
        let browser = try TestBrowser()
        let content = Array("hello".utf8)
        let bodies = try (0..<2).map { _ in try WebPushEncryption.encrypt(content, to: browser.keys) }
        #expect(bodies[0].prefix(16) != bodies[1].prefix(16))
        #expect(bodies[0][21..<86] != bodies[1][21..<86])
        for body in bodies { #expect(try browser.decrypt(body) == content) }
    }

    @Test("D88 a point off the curve and keys of a wrong length are refused")
    func refused() throws {
        let point = try self.bytes(Vector.theirPublic)
        let secret = try self.bytes(Vector.secret)
        #expect(WebPushKeys(publicKey: Array(point.dropLast()), secret: secret) == nil)
        #expect(WebPushKeys(publicKey: point, secret: Array(secret.dropLast())) == nil)
        for altered in [point.dropLast() + [point[64] ^ 1], [0x02] + point.dropFirst(), [0] + point.dropFirst()] {
            let keys = try #require(WebPushKeys(publicKey: Array(altered), secret: secret))
            #expect(throws: TLSError.self) { try WebPushEncryption.encrypt([1], to: keys) }
        }
    }
}

/// A browser with its subscription's keys, which decrypts by its own reading of RFC 8291 and RFC 8188.
struct TestBrowser {
    let keys: WebPushKeys
    private let privateKey: [UInt8]

    init() throws { try self.init(privateKey: SecureRandom.bytes(32), secret: SecureRandom.bytes(16)) }

    init(privateKey: [UInt8], secret: [UInt8]) throws {
        let point = try #require(EphemeralAgreement.publicPoint(ofPrivateKey: privateKey))
        self.keys = try #require(WebPushKeys(publicKey: point, secret: secret))
        self.privateKey = privateKey
    }

    func decrypt(_ body: [UInt8]) throws -> [UInt8] {
        let (salt, length) = (Array(body[..<16]), Int(body[20]))
        let sender = Array(body[21..<21 + length])
        let shared = try EphemeralAgreement(with: sender, privateKey: self.privateKey).secret
        func expand(_ key: [UInt8], _ info: [UInt8], _ count: Int) -> [UInt8] {
            Array(HMACSHA256.authenticate(info + [1], key: key).prefix(count))
        }
        let combined = HMACSHA256.authenticate(shared, key: self.keys.secret)
        let material = expand(combined, Array("WebPush: info\0".utf8) + self.keys.publicKey + sender, 32)
        let key = HMACSHA256.authenticate(material, key: salt)
        let padded = try AES128GCM.open(
            Array(body[(21 + length)...]),
            key: expand(key, Array("Content-Encoding: aes128gcm\0".utf8), 16),
            nonce: expand(key, Array("Content-Encoding: nonce\0".utf8), 12),
        )
        let end = try #require(padded.lastIndex { $0 != 0 })
        try #require(padded[end] == 2)
        return Array(padded[..<end])
    }
}
