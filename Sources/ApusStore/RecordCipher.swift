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
    /// The reason why the configured keys are lacking, in words; nil when they are there, or none is configured.
    private let problem: String?
    private let refusals: Refusals

    /// Counts the records that could not be read or written because a key was lacking.
    final class Refusals: Sendable {
        private let number = Atomic(0)

        /// The number so far.
        var count: Int { self.number.load(ordering: .relaxed) }

        fileprivate func add() { self.number.add(1, ordering: .relaxed) }
    }

    /// Creates a cipher.
    ///
    /// - Parameters:
    ///   - keys: keys of 32 bytes; the first encrypts, all decrypt. None: records are stored as they are.
    ///   - refusals: what counts the records that it refuses.
    init(keys: [[UInt8]], refusals: Refusals) {
        precondition(keys.count <= EncryptionKeys.countMax)
        self.keys = keys.map { Key(name: Self.name(of: $0), bytes: $0) }
        self.problem = nil
        self.refusals = refusals
    }

    /// Creates the cipher of somebody who lacks the configured keys: it neither encrypts nor decrypts.
    init(lackingKeys problem: String, refusals: Refusals) {
        self.keys = []
        self.problem = problem
        self.refusals = refusals
    }

    /// True when it has keys, if perhaps not all.
    var hasKeys: Bool { !self.keys.isEmpty }

    /// True when records are stored as they are.
    fileprivate var isPlain: Bool { self.keys.isEmpty && self.problem == nil }

    /// Returns a packed record as it is stored.
    ///
    /// - Throws: `sealed` when the configured keys are lacking.
    func seal(_ record: [UInt8], of app: AppID) throws(StoreError) -> [UInt8] {
        if self.isPlain { return record }
        guard let key = self.keys.first else {
            self.refusals.add()
            throw StoreError(.sealed, self.problem ?? "")
        }
        let nonce = SecureRandom.bytes(XAES256GCM.nonceBytes)
        var cipher = XAES256GCM(key: key.bytes)
        return [Self.marker] + bigEndian(key.name) + nonce
            + cipher.seal(record, nonce: nonce, context: Array(app.text.utf8))
    }

    /// Returns true when a value, header and record, is stored as the cipher would store it: with the current key. True where records are
    /// stored as they are, because nobody decrypts them for that.
    func isCurrent(_ value: Span<UInt8>) -> Bool { self.isPlain || Self.name(in: value) == self.keys.first?.name }

    /// Throws `sealed` for a value, header and record, that is encrypted with a key that is not known.
    func check(_ value: Span<UInt8>) throws(StoreError) {
        guard let name = Self.name(in: value), !self.keys.contains(where: { $0.name == name }) else { return }
        self.refusals.add()
        let digits = Hexadecimal.encode(bigEndian(name))
        let cure =
            if self.isPlain {
                "and store.encryption_key_file is not configured here"
            } else if let problem {
                "but \(problem)"
            } else {
                "which store.encryption_key_file does not have"
            }
        throw StoreError(.sealed, "a record is encrypted with the key \(digits), \(cure)")
    }

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

        /// Creates an opener of records of that app.
        init(_ cipher: RecordCipher, of app: AppID) {
            self.keys = cipher.keys
            self.context = cipher.keys.isEmpty ? [] : Array(app.text.utf8)
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
    private let refusals = RecordCipher.Refusals()
    private let current: Mutex<RecordCipher>

    /// Creates an encryption without keys: records are stored as they are.
    package init() { self.current = Mutex(RecordCipher(keys: [], refusals: self.refusals)) }

    /// The cipher of now.
    var cipher: RecordCipher { self.current.withLock { $0 } }

    /// True when there are keys, also while they cannot be had.
    package var isOn: Bool { !self.cipher.isPlain }

    /// The number of records that could not be read or written because a key was lacking.
    package var refusedCount: Int { self.refusals.count }

    /// Records that the configured keys cannot be had: nothing is written then, and nothing read that is encrypted.
    package func lackKeys(because problem: String) {
        let cipher = RecordCipher(lackingKeys: problem, refusals: self.refusals)
        self.current.withLock { $0 = cipher }
    }

    /// Sets the keys, the current one first; none: records are stored as they are.
    package func setKeys(_ keys: [[UInt8]]) {
        let cipher = RecordCipher(keys: keys, refusals: self.refusals)
        self.current.withLock { $0 = cipher }
    }
}
