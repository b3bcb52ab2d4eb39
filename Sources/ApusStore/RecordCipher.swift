internal import ApusCore
internal import ApusTLS
internal import Synchronization

/// Encrypts the records of devices: everything behind their header.
///
/// An encrypted record is a zero byte, which no message begins with, four bytes that name the key, a nonce, and the packed record as
/// ``XAES256GCM`` seals it in the context of its app.
struct RecordCipher: Sendable {
    private static let marker: UInt8 = 0
    private static let prefixBytes = 5

    private struct Key: Sendable {
        let name: UInt32
        let bytes: [UInt8]
    }

    private let keys: [Key]
    /// The reason why there are no keys, in words.
    private let problem: String

    /// Creates a cipher.
    ///
    /// - Parameter keys: keys of 32 bytes; the first encrypts, all decrypt.
    init(keys: [[UInt8]]) {
        precondition((1...EncryptionKeys.countMax).contains(keys.count))
        self.keys = keys.map { Key(name: Self.name(of: $0), bytes: $0) }
        self.problem = ""
    }

    /// Creates the cipher of somebody who lacks the configured keys: it neither encrypts nor decrypts.
    init(lackingKeys problem: String) {
        self.keys = []
        self.problem = problem
    }

    /// Returns an encrypted record.
    ///
    /// - Throws: `sealed` when the keys are lacking.
    func seal(_ record: [UInt8], of app: AppID) throws(StoreError) -> [UInt8] {
        guard let key = self.keys.first else { throw StoreError(.sealed, self.problem) }
        let nonce = SecureRandom.bytes(XAES256GCM.nonceBytes)
        var cipher = XAES256GCM(key: key.bytes)
        return [Self.marker] + bigEndian(key.name) + nonce
            + cipher.seal(record, nonce: nonce, context: Array(app.text.utf8))
    }

    /// Returns true when a value, header and record, is encrypted with the current key.
    func isCurrent(_ value: Span<UInt8>) -> Bool { Self.name(in: value) == self.keys.first?.name }

    /// The name of a key: the first bytes of its digest.
    private static func name(of key: [UInt8]) -> UInt32 {
        SHA256.hash(key).prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
    }

    /// Returns the name of the key that a value, header and record, is encrypted with; nil when it is not encrypted.
    private static func name(in value: Span<UInt8>) -> UInt32? {
        let start = RecordHeader.byteCount
        guard value.count >= start + Self.prefixBytes, value[start] == Self.marker else { return nil }
        return (1...4).reduce(0) { $0 << 8 | UInt32(value[start + $1]) }
    }

    /// Decrypts records of one app, one after the other, on one thread.
    struct Opener: ~Copyable {
        private let keys: [Key]
        private let context: [UInt8]
        private var cipher: XAES256GCM?
        /// The name of that cipher's key.
        private var name: UInt32?
        private var opened: [UInt8] = []

        /// Creates an opener; without a cipher it opens only what is not encrypted.
        init(_ cipher: RecordCipher?, of app: AppID) {
            self.keys = cipher?.keys ?? []
            self.context = cipher == nil ? [] : Array(app.text.utf8)
        }

        /// Throws `sealed` for a value that is encrypted with a key that is not known.
        static func check(_ value: Span<UInt8>, _ cipher: RecordCipher?) throws(StoreError) {
            guard let name = RecordCipher.name(in: value), cipher?.keys.contains(where: { $0.name == name }) != true
            else { return }
            let digits = Hexadecimal.encode(bigEndian(name))
            let cure =
                switch cipher {
                case nil: "and store.encryption_key_file is not configured here"
                case let cipher? where cipher.keys.isEmpty: "but \(cipher.problem)"
                default: "which store.encryption_key_file does not have"
                }
            throw StoreError(.sealed, "a record is encrypted with the key \(digits), \(cure)")
        }

        /// Calls `body` with the value, header and record, as it is before encryption. A record that was altered becomes an empty one.
        mutating func open<Result, Failure: Error>(
            _ value: Span<UInt8>,
            _ body: (Span<UInt8>) throws(Failure) -> Result,
        ) throws(Failure) -> Result {
            guard let name = RecordCipher.name(in: value) else { return try body(value) }
            self.opened.removeAll(keepingCapacity: true)
            for index in 0..<RecordHeader.byteCount { self.opened.append(value[index]) }
            self.decrypt(value, name)
            return try body(self.opened.span)
        }

        private mutating func decrypt(_ value: Span<UInt8>, _ name: UInt32) {
            if self.name != name {
                guard let key = self.keys.first(where: { $0.name == name }) else { return }
                self.cipher = XAES256GCM(key: key.bytes)
                self.name = name
            }
            let start = RecordHeader.byteCount + RecordCipher.prefixBytes
            let end = start + XAES256GCM.nonceBytes
            guard end <= value.count else { return }
            _ = self.cipher?.open(
                value.extracting(end..<value.count),
                nonce: value.extracting(start..<end),
                context: self.context,
                appendingTo: &self.opened,
            )
        }
    }
}

/// Holds the cipher of a store's records, which may be exchanged while the store is used.
package final class RecordEncryption: Sendable {
    private let current = Mutex<RecordCipher?>(nil)

    /// Creates an encryption without keys: records are stored as they are.
    package init() {}

    /// The cipher; nil stores records as they are.
    var cipher: RecordCipher? { self.current.withLock { $0 } }

    /// Records that the configured keys cannot be had: nothing is written then, and nothing read that is encrypted.
    package func lackKeys(because problem: String) {
        let cipher = RecordCipher(lackingKeys: problem)
        self.current.withLock { $0 = cipher }
    }

    /// Sets the keys, the current one first; none: records are stored as they are.
    package func setKeys(_ keys: [[UInt8]]) {
        let cipher = keys.isEmpty ? nil : RecordCipher(keys: keys)
        self.current.withLock { $0 = cipher }
    }
}
