/// An `https` address taken apart: where to connect and what to ask for.
///
/// Without user, password and fragment (RFC 9110 §4.2.4 deprecates the first two, and a fragment is never sent).
package struct HTTPSAddress: Hashable, Sendable {
    /// A name, an IPv4 address, or an IPv6 address without its brackets.
    package let host: String
    /// 443 unless it says another.
    package let port: Int
    /// From the slash on; "/" when there is none.
    package let path: String
    /// What `:authority` says: the host, and the port when it is not 443.
    package let authority: String

    /// Port of `https`.
    package static let portDefault = 443
    /// Bytes of an address.
    package static let bytesMax = 2_048

    /// Takes it apart; nil for anything else.
    package init?(_ text: String) {
        let scheme = "https://"
        guard text.utf8.count <= Self.bytesMax, text.lowercased().hasPrefix(scheme),
            text.utf8.allSatisfy({ (0x21...0x7e).contains($0) && $0 != 0x40 && $0 != 0x23 })
        else { return nil }
        let rest = text.dropFirst(scheme.count)
        let end = rest.firstIndex { $0 == "/" || $0 == "?" } ?? rest.endIndex
        guard let (host, port) = Self.hostAndPort(rest[..<end]) else { return nil }
        self.init(host: host, port: port, path: rest[end...].hasPrefix("/") ? String(rest[end...]) : "/\(rest[end...])")
    }

    /// From its parts; the host must be one.
    package init(host: String, port: Int = Self.portDefault, path: String = "/") {
        precondition((1...65_535).contains(port) && path.hasPrefix("/"))
        self.host = host
        self.port = port
        self.path = path
        let name = host.contains(":") ? "[\(host)]" : host
        self.authority = port == Self.portDefault ? name : "\(name):\(port)"
    }

    private static func hostAndPort(_ text: Substring) -> (host: String, port: Int)? {
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
        guard let digits else { return (String(host), Self.portDefault) }
        guard digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let port = Int(digits),
            (1...65_535).contains(port)
        else { return nil }
        return (String(host), port)
    }
}
