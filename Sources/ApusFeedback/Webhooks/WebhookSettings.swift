package import ApusCore
internal import ApusService
internal import FoundationEssentials

/// Sets the webhook that receipts are posted to: all except those that a publisher wants in a stream of its own (`reply_to`). It is off
/// unless configured, and the address comes from the operator's configuration alone.
package struct WebhookSettings: Hashable, Sendable {
    /// The maximum of receipts in one request.
    package static let batchMax = 1_000
    /// The minimum of bytes of a secret: RFC 2104 §3 recommends at least as many as the hash has.
    static let secretBytesMin = 32
    /// The number of bytes of a secret in the form of Standard Webhooks.
    static let standardSecretBytes = 24...64
    /// The maximum of secrets in a file: one that is exchanged for another stands below it until all receivers have the new one.
    static let secretsMax = 4

    /// The address.
    package var address: WebAddress
    /// The file with the secret that signs requests, and below it those that it replaces.
    package var secretFile: String
    /// The number of receipts in one request.
    package var batch: Int
    /// The number of tries of one batch until it is given up, or of each of its receipts once they are posted one by one. The default of a
    /// thousand takes some forty hours; receipts are kept for three days. A receipt that is refused by itself has ten at most, or three
    /// where others of its batch were taken; one at which the receiver fails while it takes others has twenty.
    package var attemptsMax: Int
    /// The time for connecting and the answer together.
    package var timeout: Duration
    /// The authority that the server's certificate must come from; nil for the system's.
    package var caFile: String?
    /// A digest of what the authority's file contains.
    private var fileDigest: [UInt8] = []

    /// Reads the settings from `<key>.…`; mistakes are recorded by the reader.
    init(_ reader: SettingsReader, at key: String) {
        let url = reader.requiredString("\(key).url")
        let address = WebAddress(url)
        if address == nil, !url.isEmpty {
            reader.issue("\(key).url", "must be an http or https address without user, password and fragment")
        }
        self.address = address ?? WebAddress(host: "localhost")
        let secretFile = reader.requiredFilePath("\(key).secret_file")
        self.secretFile = secretFile
        if !secretFile.isEmpty, Self.secrets(in: secretFile) == nil {
            let rule = "must name a file of one to \(Self.secretsMax) lines, each at least \(Self.secretBytesMin) bytes"
            reader.issue("\(key).secret_file", "\(rule), such as `openssl rand -hex 32` writes, or whsec_ and base64")
        }
        self.batch = reader.integer("\(key).batch", default: 100, in: 1...Self.batchMax)
        self.attemptsMax = reader.integer("\(key).attempts", default: 1_000, in: 1...10_000)
        self.timeout = reader.duration("\(key).timeout", default: .seconds(10), in: .seconds(1) ... .seconds(60))
        self.caFile = reader.filePath("\(key).ca_file")
        self.fileDigest = reader.digest(of: self.caFile)
    }

    /// Returns the secrets in the file, the current one first; nil when one is unusable. They are read for each request, so that a new secret
    /// takes effect at once.
    var secrets: [[UInt8]]? { Self.secrets(in: self.secretFile) }

    private static func secrets(in file: String) -> [[UInt8]]? {
        guard let bytes = (try? Data(contentsOf: URL(filePath: file))).map({ Array($0) }) else { return nil }
        let lines = bytes.split { $0 == 0x0a || $0 == 0x0d }
        guard (1...Self.secretsMax).contains(lines.count) else { return nil }
        let secrets = lines.compactMap { Self.secret(Array($0)) }
        return secrets.count == lines.count ? secrets : nil
    }

    /// Returns the key in a line: what Standard Webhooks writes as base64 behind `whsec_`, else the line itself.
    private static func secret(_ line: [UInt8]) -> [UInt8]? {
        let prefix = Array("whsec_".utf8)
        guard line.starts(with: prefix) else { return line.count < Self.secretBytesMin ? nil : line }
        guard let key = Data(base64Encoded: String(decoding: line.dropFirst(prefix.count), as: UTF8.self)),
            Self.standardSecretBytes.contains(key.count)
        else { return nil }
        return Array(key)
    }

    /// Creates settings.
    package init(
        address: WebAddress,
        secretFile: String,
        batch: Int,
        attemptsMax: Int,
        timeout: Duration,
        caFile: String? = nil,
    ) {
        self.address = address
        self.secretFile = secretFile
        self.batch = batch
        self.attemptsMax = attemptsMax
        self.timeout = timeout
        self.caFile = caFile
    }
}
