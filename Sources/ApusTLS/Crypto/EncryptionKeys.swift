internal import ApusCore

/// Reads files with keys for ``XAES256GCM``: one key on each line, the current one first, then those that it replaces.
package enum EncryptionKeys {
    /// The maximum number of keys in a file.
    package static let countMax = 4

    /// Returns the keys of a file, 32 bytes each.
    ///
    /// - Returns: nil for anything but one to four lines of 64 hexadecimal digits.
    package static func keys(of file: [UInt8]) -> [[UInt8]]? {
        let lines = file.split { $0 == 0x0a || $0 == 0x0d }
        guard (1...Self.countMax).contains(lines.count) else { return nil }
        let keys = lines.compactMap { Hexadecimal.decode(String(decoding: $0, as: UTF8.self)) }
        guard keys.count == lines.count, keys.allSatisfy({ $0.count == XAES256GCM.keyBytes }) else { return nil }
        return keys
    }
}
