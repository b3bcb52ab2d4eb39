/// An `http` or `https` address in its parts. Pure.
///
/// It has no user, password and fragment (RFC 9110 §4.2.4 deprecates the first two, and a fragment is never sent).
package struct WebAddress: Hashable, Sendable {
    /// True for `https`.
    package let isSecure: Bool
    /// The host: a name, an IPv4 address, or an IPv6 address without its brackets.
    package let host: String
    /// The port; the scheme's default unless the address has another.
    package let port: Int
    /// The path from the slash on; "/" when there is none.
    package let path: String
    /// The value of `Host` and `:authority`: the host, and the port when it is not the scheme's default.
    package let authority: String

    /// The default port of `https`.
    package static let securePort = 443
    /// The default port of `http`.
    static let plainPort = 80
    /// The maximum bytes of an address.
    package static let bytesMax = 2_048

    /// Parses an address; nil for anything else.
    package init?(_ text: String) {
        guard text.utf8.count <= Self.bytesMax,
            text.utf8.allSatisfy({ (0x21...0x7e).contains($0) && $0 != 0x23 }),
            let colon = text.firstIndex(of: ":"), text[colon...].hasPrefix("://")
        else { return nil }
        let isSecure: Bool
        switch text[..<colon].lowercased() {
        case "https": isSecure = true
        case "http": isSecure = false
        default: return nil
        }
        let rest = text[colon...].dropFirst(3)
        let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
        guard let (host, port) = Self.hostAndPort(rest[..<end]) else { return nil }
        let path = rest[end...]
        self.init(
            isSecure: isSecure,
            host: host,
            port: port,
            path: path.hasPrefix("/") ? String(path) : "/\(path)"
        )
    }

    /// Parses an `https` address; nil for anything else.
    package init?(https text: String) {
        self.init(text)
        guard self.isSecure else { return nil }
    }

    /// Creates an address from its parts; the host must be valid.
    ///
    /// - Parameter port: the port; nil for the scheme's default.
    package init(isSecure: Bool = true, host: String, port: Int? = nil, path: String = "/") {
        let schemePort = isSecure ? Self.securePort : Self.plainPort
        let port = port ?? schemePort
        precondition((1...65_535).contains(port) && path.hasPrefix("/"))
        self.isSecure = isSecure
        self.host = host
        self.port = port
        self.path = path
        let name = host.contains(":") ? "[\(host)]" : host
        self.authority = port == schemePort ? name : "\(name):\(port)"
    }

    private static func hostAndPort(_ text: Substring) -> (host: String, port: Int?)? {
        var host = text
        var digits: Substring?
        if text.hasPrefix("[") {
            guard let close = text.firstIndex(of: "]") else { return nil }
            host = text[text.index(after: text.startIndex)..<close]
            let tail = text[text.index(after: close)...]
            guard tail.isEmpty || tail.hasPrefix(":"), host.contains(":") else { return nil }
            digits = tail.isEmpty ? nil : tail.dropFirst()
        } else if let colon = text.firstIndex(of: ":") {
            host = text[..<colon]
            digits = text[text.index(after: colon)...]
        }
        let valid = host.utf8.allSatisfy { byte in
            (0x61...0x7a).contains(byte | 0x20) || (0x30...0x3a).contains(byte) || byte == 0x2d || byte == 0x2e
                || byte == 0x5f
        }
        guard valid, (1...253).contains(host.utf8.count) else { return nil }
        guard let digits else { return (String(host), nil) }
        guard digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let port = Int(digits),
            (1...65_535).contains(port)
        else { return nil }
        return (String(host), port)
    }
}
