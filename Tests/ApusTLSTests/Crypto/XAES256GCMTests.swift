import ApusCore
import ApusTLS
import Testing

@Suite struct XAES256GCMTests {
    private static let nonce = Array("ABCDEFGHIJKLMNOPQRSTUVWX".utf8)
    private static let plaintext = Array("XAES-256-GCM".utf8)

    /// The vectors of the specification, one for each value of the highest bit of the first subkey.
    @Test(arguments: [
        (UInt8(1), "", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"),
        (3, "c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"),
    ])
    func `The vectors of the specification hold`(_ byte: UInt8, _ context: String, _ sealed: String) throws {
        var cipher = XAES256GCM(key: [UInt8](repeating: byte, count: XAES256GCM.keyBytes))
        let result = cipher.seal(Self.plaintext, nonce: Self.nonce, context: Array(context.utf8))
        #expect(Hexadecimal.encode(result) == sealed)
        var opened: [UInt8] = [7]
        let isOpened = cipher.open(
            result.span,
            nonce: Self.nonce.span,
            context: Array(context.utf8),
            appendingTo: &opened
        )
        #expect(isOpened && opened == [7] + Self.plaintext)
    }

    @Test func `Nothing is opened that was altered, nor with another nonce, context or key`() throws {
        let key = [UInt8](repeating: 1, count: XAES256GCM.keyBytes)
        var cipher = XAES256GCM(key: key)
        let sealed = cipher.seal(Self.plaintext, nonce: Self.nonce, context: [1])
        var opened: [UInt8] = []
        func altered(_ bytes: [UInt8], _ index: Int) -> [UInt8] {
            var bytes = bytes
            bytes[index] ^= 1
            return bytes
        }
        for index in sealed.indices {
            let other = altered(sealed, index)
            #expect(!cipher.open(other.span, nonce: Self.nonce.span, context: [1], appendingTo: &opened))
        }
        for index in Self.nonce.indices {
            let other = altered(Self.nonce, index)
            #expect(!cipher.open(sealed.span, nonce: other.span, context: [1], appendingTo: &opened))
        }
        #expect(!cipher.open(sealed.span, nonce: Self.nonce.span, context: [2], appendingTo: &opened))
        let short = Array(sealed.prefix(XAES256GCM.tagBytes - 1))
        #expect(!cipher.open(short.span, nonce: Self.nonce.span, context: [1], appendingTo: &opened))
        var stranger = XAES256GCM(key: altered(key, 31))
        #expect(!stranger.open(sealed.span, nonce: Self.nonce.span, context: [1], appendingTo: &opened))
        #expect(opened.isEmpty)
        #expect(cipher.open(sealed.span, nonce: Self.nonce.span, context: [1], appendingTo: &opened))
        #expect(opened == Self.plaintext)
    }

    @Test func `A file has one to four keys of 64 hexadecimal digits`() {
        let (one, other) = (String(repeating: "0a", count: 32), String(repeating: "F1", count: 32))
        func keys(_ text: String) -> [[UInt8]]? { EncryptionKeys.keys(of: Array(text.utf8)) }
        #expect(keys(one) == [[UInt8](repeating: 0x0a, count: 32)])
        #expect(keys("\(one)\r\n\(other)\n")?.map { $0[0] } == [0x0a, 0xf1])
        let five = [String](repeating: one, count: 5).joined(separator: "\n")
        let short = String(one.dropLast())
        for text in ["", "\n", short, one + "0", "\(one) \(other)", short + "g", five] {
            #expect(keys(text) == nil, "\(text)")
        }
    }
}
