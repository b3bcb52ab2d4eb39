/// The address and port that a server listens on.
public struct ListenAddress: Hashable, Sendable, CustomStringConvertible {
    /// A name or an IP address, without brackets.
    public let host: String
    /// The port; 0 lets the system choose.
    public let port: Int

    /// Creates an address.
    public init(host: String, port: Int) {
        precondition((0...65_535).contains(port))
        self.host = host
        self.port = port
    }

    /// Parses `127.0.0.1:9102`, `[::1]:0`, or `:9102` for every address; nil for anything else.
    public init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":") else { return nil }
        let digits = text[text.index(after: colon)...]
        guard !digits.isEmpty, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        guard let port = Int(digits), (0...65_535).contains(port) else { return nil }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = String(host.dropFirst().dropLast())
        } else if host.contains(":") {
            return nil
        }
        guard !host.contains(" ") else { return nil }
        self.init(host: host.isEmpty ? "0.0.0.0" : host, port: port)
    }

    /// The address in the form in which it is written.
    public var description: String {
        self.host.contains(":") ? "[\(self.host)]:\(self.port)" : "\(self.host):\(self.port)"
    }
}

extension SettingsReader {
    /// Reads the address that a server listens on.
    public func address(_ key: String, default defaultValue: ListenAddress) -> ListenAddress {
        let text = self.string(key, default: "\(defaultValue)")
        guard let address = ListenAddress(text) else {
            self.issue(key, "must be an address with a port, such as 127.0.0.1:9102, [::1]:9102 or :9102")
            return defaultValue
        }
        return address
    }
}
