package import ApusCore
internal import ApusService
internal import FoundationEssentials

/// Sets the webhook that receipts are posted to: all except those that a publisher wants in a stream of its own (`reply_to`). It is off
/// unless configured, and the address comes from the operator's configuration alone.
package struct WebhookSettings: Hashable, Sendable {
    /// The maximum of receipts in one request.
    package static let batchMax = 1_000
    /// The minimum of bytes of a secret: RFC 2104 §3 recommends at least as many as the hash has.
    package static let secretBytesMin = 32

    /// The address.
    package var address: WebAddress
    /// The file with the secret that signs requests.
    package var secretFile: String
    /// The number of receipts in one request.
    package var batch: Int
    /// The number of tries of one batch until it is given up. The default of a thousand takes some forty hours; receipts are kept for three
    /// days.
    package var attemptsMax: Int
    /// The time for connecting and the answer together.
    package var timeout: Duration
    /// The authority that the server's certificate must come from; nil for the system's.
    package var caFile: String?

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
        if !secretFile.isEmpty, Self.secret(in: secretFile) == nil {
            let rule = "must name a file of at least \(Self.secretBytesMin) bytes"
            reader.issue("\(key).secret_file", "\(rule), such as `openssl rand -hex 32` writes")
        }
        self.batch = reader.integer("\(key).batch", default: 100, in: 1...Self.batchMax)
        self.attemptsMax = reader.integer("\(key).attempts", default: 1_000, in: 1...10_000)
        self.timeout = reader.duration("\(key).timeout", default: .seconds(10), in: .seconds(1) ... .seconds(60))
        self.caFile = reader.filePath("\(key).ca_file")
    }

    /// Returns the secret in the file, without the end of its line; nil when it is unusable. It is read for each request, so that a new
    /// secret takes effect at once.
    var secret: [UInt8]? { Self.secret(in: self.secretFile) }

    private static func secret(in file: String) -> [UInt8]? {
        guard var bytes = (try? Data(contentsOf: URL(filePath: file))).map({ Array($0) }) else { return nil }
        while let last = bytes.last, last == 0x0a || last == 0x0d { bytes.removeLast() }
        return bytes.count < Self.secretBytesMin ? nil : bytes
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
