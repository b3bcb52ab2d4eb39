internal import ApusTLS
internal import FoundationEssentials

/// Describes how devices are stored.
public struct StoreSettings: Hashable, Sendable {
    /// The keys that records are encrypted with, the current one first; empty: records are stored as they are.
    public var encryptionKeys: [[UInt8]] = []

    init(_ reader: SettingsReader) {
        let key = "store.encryption_key_file"
        guard let file = reader.filePath(key) else { return }
        let bytes = try? Data(contentsOf: URL(filePath: file))
        guard let keys = EncryptionKeys.keys(of: Array(bytes ?? Data())) else {
            let rule = "must name a file of one to \(EncryptionKeys.countMax) lines, each 64 hexadecimal digits"
            reader.issue(key, "\(rule), such as `openssl rand -hex 32` writes")
            return
        }
        self.encryptionKeys = keys
    }
}
