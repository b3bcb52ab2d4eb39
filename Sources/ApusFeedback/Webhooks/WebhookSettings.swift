internal import ApusService
internal import FoundationEssentials

/// Where receipts are posted to: those that no publisher wanted in a stream of its own. Off unless configured; the address comes from the
/// operator's configuration alone.
package struct WebhookSettings: Hashable, Sendable {
    /// Receipts of one request, at most.
    package static let batchMax = 1_000
    /// Bytes of a secret, at least: RFC 2104 §3 wants no fewer than the hash has.
    package static let secretBytesMin = 32

    /// Where.
    package var address: WebhookAddress
    /// What requests are signed with.
    package var secretFile: String
    /// Receipts of one request.
    package var batch: Int
    /// Tries of one batch, until it is given up.
    package var attemptsMax: Int
    /// How long connecting and the answer may take, all together.
    package var timeout: Duration
    /// The authority that the server's certificate must come from; nil: the system's.
    package var caFile: String?

    /// From `<key>.…`; mistakes are noted with the reader.
    init(_ reader: SettingsReader, at key: String) {
        let url = reader.requiredString("\(key).url")
        let address = WebhookAddress(url)
        if address == nil, !url.isEmpty {
            reader.issue("\(key).url", "must be an http or https address without user, password and fragment")
        }
        self.address = address ?? WebhookAddress.standIn
        let secretFile = reader.requiredFilePath("\(key).secret_file")
        self.secretFile = secretFile
        if !secretFile.isEmpty, Self.secret(in: secretFile) == nil {
            let rule = "must name a file of at least \(Self.secretBytesMin) bytes"
            reader.issue("\(key).secret_file", "\(rule), such as `openssl rand -hex 32` writes")
        }
        self.batch = reader.integer("\(key).batch", default: 100, in: 1...Self.batchMax)
        self.attemptsMax = reader.integer("\(key).attempts", default: 10, in: 1...100)
        self.timeout = reader.duration("\(key).timeout", default: .seconds(10), in: .seconds(1) ... .seconds(60))
        self.caFile = reader.filePath("\(key).ca_file")
    }

    /// What the file holds, without the end of its line; nil: nothing that would do. Read anew for each request, so that a new
    /// secret counts at once.
    var secret: [UInt8]? { Self.secret(in: self.secretFile) }

    private static func secret(in file: String) -> [UInt8]? {
        guard var bytes = (try? Data(contentsOf: URL(filePath: file))).map({ Array($0) }) else { return nil }
        while let last = bytes.last, last == 0x0a || last == 0x0d { bytes.removeLast() }
        return bytes.count < Self.secretBytesMin ? nil : bytes
    }

    /// Settings.
    package init(
        address: WebhookAddress,
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

/// An `http` or `https` address taken apart.
package struct WebhookAddress: Hashable, Sendable {
    /// Bytes of an address.
    static let bytesMax = 2_048
    static let standIn = WebhookAddress(isSecure: true, host: "localhost", port: 443, path: "/")

    /// Whether it is `https`.
    package let isSecure: Bool
    /// A name, an IPv4 address, or an IPv6 address without its brackets.
    package let host: String
    /// As it says, or the scheme's own.
    package let port: Int
    /// From the slash on, with the query.
    package let path: String

    private init(isSecure: Bool, host: String, port: Int, path: String) {
        self.isSecure = isSecure
        self.host = host
        self.port = port
        self.path = path
    }

    /// Takes it apart; nil for anything else.
    package init?(_ text: String) {
        guard text.utf8.count <= Self.bytesMax,
            text.utf8.allSatisfy({ (0x21...0x7e).contains($0) && $0 != 0x40 && $0 != 0x23 })
        else { return nil }
        let isSecure: Bool
        switch text.lowercased() {
        case let lower where lower.hasPrefix("https://"): isSecure = true
        case let lower where lower.hasPrefix("http://"): isSecure = false
        default: return nil
        }
        let rest = text.dropFirst(isSecure ? 8 : 7)
        let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
        var host = rest[..<end]
        var digits: Substring?
        if host.hasPrefix("[") {
            guard let close = host.firstIndex(of: "]") else { return nil }
            let tail = host[host.index(after: close)...]
            guard tail.isEmpty || tail.hasPrefix(":") else { return nil }
            digits = tail.isEmpty ? nil : tail.dropFirst()
            host = host[host.index(after: host.startIndex)..<close]
        } else if let colon = host.firstIndex(of: ":") {
            digits = host[host.index(after: colon)...]
            host = host[..<colon]
        }
        guard (1...253).contains(host.utf8.count) else { return nil }
        var port = isSecure ? 443 : 80
        if let digits {
            guard let number = Int(digits), (1...65_535).contains(number) else { return nil }
            port = number
        }
        let path = rest[end...]
        self.init(
            isSecure: isSecure,
            host: String(host),
            port: port,
            path: path.hasPrefix("/") ? String(path) : "/\(path)",
        )
    }

    /// What `Host` says.
    var authority: String {
        let name = self.host.contains(":") ? "[\(self.host)]" : self.host
        return self.port == (self.isSecure ? 443 : 80) ? name : "\(name):\(self.port)"
    }
}
