import ApusCore
import ApusTLS
import Testing

@Suite struct HashTests {
    // FIPS 180-4 examples.
    @Test(arguments: [
        ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
        ),
    ])
    func sha256IsThatOfTheStandard(text: String, hash: String) {
        #expect(Hexadecimal.encode(SHA256.hash(utf8: text)) == hash)
        #expect(Hexadecimal.encode(SHA256.hash(Array(text.utf8))) == hash)
    }

    @Test func piecesHashLikeTheWhole() {
        var hash = SHA256()
        hash.update(utf8: "app")
        hash.update([0])
        hash.update(utf8: "device")
        let pieces = hash.finish()
        #expect(pieces == SHA256.hash(utf8: "app\0device"))
        #expect(pieces == SHA256.hash(Array("app".utf8), [0], Array("device".utf8)))
    }

    @Test func aFinishedHashStartsAnew() {
        var hash = SHA256()
        hash.update(utf8: "something else")
        _ = hash.finish()
        hash.update(utf8: "abc")
        let second = hash.finish()
        #expect(second == SHA256.hash(utf8: "abc"))
    }

    @Test func aMillionBytesHashRight() {
        let hash = SHA256.hash([UInt8](repeating: UInt8(ascii: "a"), count: 1_000_000))
        #expect(Hexadecimal.encode(hash) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0")
    }

    // RFC 4231, test cases 2 and 6.
    @Test func hmacIsThatOfTheStandard() {
        let short = HMACSHA256.authenticate(Array("what do ya want for nothing?".utf8), key: Array("Jefe".utf8))
        #expect(Hexadecimal.encode(short) == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        let long = HMACSHA256.authenticate(
            Array("Test Using Larger Than Block-Size Key - ".utf8),
            Array("Hash Key First".utf8),
            key: [UInt8](repeating: 0xaa, count: 131),
        )
        #expect(Hexadecimal.encode(long) == "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54")
    }

    @Test func hmacUnderAnEmptyKeyDoesNotUseAnOlderOne() {
        _ = HMACSHA256.authenticate([1], key: [1, 2, 3])
        let empty = HMACSHA256.authenticate([], key: [])
        #expect(Hexadecimal.encode(empty) == "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad")
    }

    @Test func aCodeIsVerifiedAsAWhole() {
        let code = HMACSHA256.authenticate([1, 2], [3], key: [7])
        #expect(HMACSHA256.verify(code, of: [1], [2, 3], key: [7]))
        #expect(!HMACSHA256.verify(code, of: [1, 2, 3], key: [8]))
        #expect(!HMACSHA256.verify(Array(code.dropLast()), of: [1, 2, 3], key: [7]))
    }

    @Test func secretsAreComparedByContent() {
        #expect(ConstantTime.equals([], []))
        #expect(ConstantTime.equals([1, 2, 3], [1, 2, 3]))
        #expect(!ConstantTime.equals([1, 2, 3], [1, 2, 4]))
        #expect(!ConstantTime.equals([1, 2, 3], [1, 2]))
    }

    @Test func randomBytesDoNotRepeat() {
        #expect(SecureRandom.bytes(0).isEmpty)
        let draws = Set((0..<100).map { _ in SecureRandom.bytes(16) })
        #expect(draws.count == 100)
        #expect(draws.allSatisfy { $0.count == 16 })
    }

    @Test func aWipedSecretIsGone() {
        var secret: [UInt8] = [1, 2, 3]
        SecretBytes.wipe(&secret)
        #expect(secret.isEmpty)
    }
}
