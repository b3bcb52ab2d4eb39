import ApusCore
import ApusTLS
import ApusTestKit
import Testing

@Suite struct KeyTests {
    @Test(arguments: [PrivateKey.Generated.p256, .rsa2048])
    func aKeySurvivesPEM(kind: PrivateKey.Generated) throws {
        let key = try PrivateKey.generate(kind)
        let again = try PrivateKey(pem: key.pem)
        #expect(key.pem.hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
        #expect(again.kind == key.kind)
        #expect(again.publicKey.pem == key.publicKey.pem)
        #expect(try PublicKey(pem: key.publicKey.pem).pem == key.publicKey.pem)
    }

    @Test func aScalarMakesTheKeyOfTheRFC() throws {
        let scalar = try #require(Base64URL.decode(Vectors.p256Scalar))
        let x = try #require(Base64URL.decode(Vectors.ecX))
        let y = try #require(Base64URL.decode(Vectors.ecY))
        let key = try PrivateKey(p256Scalar: scalar)
        #expect(key.kind == .p256)
        #expect(key.publicKey.uncompressedPoint == [0x04] + x + y)
        #expect(try PublicKey(x: x, y: y).pem == key.publicKey.pem)
        #expect(try PrivateKey(pem: key.pem).publicKey.uncompressedPoint == [0x04] + x + y)
    }

    @Test func jwkNumbersMakeTheRSAKeyOfTheRFC() throws {
        let modulus = try #require(Base64URL.decode(Vectors.rsaModulus))
        let exponent = try #require(Base64URL.decode(Vectors.rsaExponent))
        let key = try PublicKey(modulus: modulus, exponent: exponent)
        #expect(key.kind == .rsa)
        #expect(key.uncompressedPoint == nil)
        #expect(try PrivateKey(pem: Vectors.rsaKeyPEM).publicKey.pem == key.pem)
    }

    @Test func bothSidesArriveAtTheSharedSecretOfTheRFC() throws {
        func decoded(_ text: String) throws -> [UInt8] { try #require(Base64URL.decode(text)) }
        let ourPoint = try decoded(Vectors.webPushApplicationPublic)
        let theirPoint = try decoded(Vectors.webPushUserPublic)
        let ours = try EphemeralAgreement(with: theirPoint, privateKey: decoded(Vectors.webPushApplicationPrivate))
        let theirs = try EphemeralAgreement(with: ourPoint, privateKey: decoded(Vectors.webPushUserPrivate))
        #expect(try ours.secret == decoded(Vectors.webPushShared))
        #expect(theirs.secret == ours.secret)
        #expect(ours.publicPoint == ourPoint)
        #expect(theirs.publicPoint == theirPoint)
        #expect(try EphemeralAgreement.publicPoint(ofPrivateKey: decoded(Vectors.webPushUserPrivate)) == theirPoint)
    }

    @Test func aNumberThatIsNoneOfTheCurvesHasNoPoint() {
        #expect(EphemeralAgreement.publicPoint(ofPrivateKey: [UInt8](repeating: 0, count: 32)) == nil)
        #expect(EphemeralAgreement.publicPoint(ofPrivateKey: [UInt8](repeating: 0xff, count: 32)) == nil)
    }

    @Test func sealingGivesTheCiphertextOfTheRFC() throws {
        let key = try #require(Base64URL.decode(Vectors.webPushKey))
        let nonce = try #require(Base64URL.decode(Vectors.webPushNonce))
        let padded = Array(Vectors.webPushPlaintext.utf8) + [0x02]
        let sealed = AES128GCM.seal(padded, key: key, nonce: nonce)
        #expect(Base64URL.encode(sealed) == Vectors.webPushCiphertext)
        #expect(try AES128GCM.open(sealed, key: key, nonce: nonce) == padded)
        for index in sealed.indices {
            var altered = sealed
            altered[index] ^= 1
            #expect(Self.code { _ = try AES128GCM.open(altered, key: key, nonce: nonce) } == .decryptionFailed)
        }
    }

    @Test func aKeyUnderAPassphraseIsRefusedByName() throws {
        for arguments in [
            ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-aes256", "-pass", "pass:secret"],
            ["genrsa", "-traditional", "-aes128", "-passout", "pass:secret", "2048"],
        ] {
            let pem = try OpenSSLTool.run(arguments).text
            #expect(pem.contains("ENCRYPTED"))
            #expect(Self.code { _ = try PrivateKey(pem: pem) } == .keyEncrypted)
        }
    }

    @Test func otherKindsAndShortKeysAreRefused() throws {
        for arguments in [
            ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"],
            ["genpkey", "-algorithm", "ED25519"],
            ["genrsa", "1024"],
        ] {
            let pem = try OpenSSLTool.run(arguments).text
            #expect(Self.code { _ = try PrivateKey(pem: pem) } == .keyUnsuitable)
            let publicPEM = try OpenSSLTool.run(["pkey", "-pubout"], input: pem).text
            #expect(Self.code { _ = try PublicKey(pem: publicPEM) } == .keyUnsuitable)
        }
    }

    @Test func olderFormsOfOpenSSLAreRead() throws {
        let sec1 = try OpenSSLTool.run(["ecparam", "-name", "prime256v1", "-genkey", "-noout"]).text
        #expect(sec1.hasPrefix("-----BEGIN EC PRIVATE KEY-----"))
        #expect(try PrivateKey(pem: sec1).kind == .p256)
        let pkcs1 = try OpenSSLTool.run(["genrsa", "-traditional", "2048"]).text
        #expect(pkcs1.hasPrefix("-----BEGIN RSA PRIVATE KEY-----"))
        #expect(try PrivateKey(pem: pkcs1).kind == .rsa)
    }

    @Test func aCompressedPointIsExpanded() throws {
        let pem = try PrivateKey.generate(.p256).pem
        let plain = try OpenSSLTool.run(["ec", "-pubout"], input: pem).text
        let compressed = try OpenSSLTool.run(["ec", "-pubout", "-conv_form", "compressed"], input: pem).text
        #expect(compressed != plain)
        #expect(try PublicKey(pem: compressed).uncompressedPoint == PublicKey(pem: plain).uncompressedPoint)
    }

    @Test func rubbishIsNotAKey() throws {
        let good = try PrivateKey.generate(.p256).pem
        let damaged = good.replacing("M", with: "A")
        for pem in ["", "hello", String(good.prefix(80)), damaged, try PrivateKey.generate(.p256).publicKey.pem] {
            #expect(Self.code { _ = try PrivateKey(pem: pem) } == .invalidKey)
        }
        #expect(Self.code { _ = try PublicKey(pem: good) } == .invalidKey)
    }

    @Test func numbersThatAreNoKeysAreRefused() throws {
        let order = try #require(
            Hexadecimal.decode("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551")
        )
        for scalar in [[], [UInt8](repeating: 0, count: 32), order, [UInt8](repeating: 1, count: 33)] {
            #expect(Self.code { _ = try PrivateKey(p256Scalar: scalar) } == .invalidKey)
        }
        var point = try #require(try PrivateKey.generate(.p256).publicKey.uncompressedPoint)
        point[64] ^= 1
        #expect(Self.code { _ = try PublicKey(uncompressedPoint: point) } == .invalidKey)
        #expect(Self.code { _ = try PublicKey(uncompressedPoint: Array(point.dropLast())) } == .invalidKey)
        let short = [UInt8](repeating: 0xff, count: 128)
        #expect(Self.code { _ = try PublicKey(modulus: short, exponent: [1, 0, 1]) } == .keyUnsuitable)
        let long = [UInt8](repeating: 0xff, count: PublicKey.modulusBytesMax + 1)
        #expect(Self.code { _ = try PublicKey(modulus: long, exponent: [1, 0, 1]) } == .keyUnsuitable)
    }

    static func code(_ body: () throws -> Void) -> TLSError.Code? {
        do {
            try body()
            return nil
        } catch let error as TLSError {
            return error.code
        } catch {
            return nil
        }
    }
}
