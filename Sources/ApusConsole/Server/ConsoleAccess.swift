internal import ApusCore
package import ApusService

/// Decides from where the console may be reached, and what may be read without signing in. It is pure.
package struct ConsoleAccess: Hashable, Sendable {
    /// The mistakes in how a console is started.
    package enum Mistake: Error, Hashable, CustomStringConvertible {
        /// The address is beyond loopback, and browsers would send keys in the clear.
        case unprotected(String)
        /// The public address is not one of http or https.
        case noAddress(String)

        /// The sentence.
        package var description: String {
            switch self {
            case .unprotected(let host):
                "--listen \(host) can be reached from other machines, where keys must not travel in the clear: put a proxy with TLS "
                    + "before the console and name its address with --public-url https://…, or listen on 127.0.0.1"
            case .noAddress(let text): "--public-url \(text) is not an address such as https://push.example"
            }
        }
    }

    /// The scheme and authority under which browsers reach it; nil for the loopback address.
    private let publicOrigin: String?
    private let isLoopback: Bool

    /// Creates the rules of a console.
    ///
    /// - Parameters:
    ///   - listen: the address that it listens at.
    ///   - publicURL: the address under which browsers reach it; nil for that of `listen`.
    package init(listen: ListenAddress, publicURL: String?) throws(Mistake) {
        self.isLoopback = Self.isLoopback(listen.host)
        guard let publicURL else {
            guard self.isLoopback else { throw .unprotected(listen.host) }
            self.publicOrigin = nil
            return
        }
        var text = publicURL.lowercased()
        while text.hasSuffix("/") { text.removeLast() }
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 3, parts[0] == "https:" || parts[0] == "http:", parts[1].isEmpty, !parts[2].isEmpty else {
            throw .noAddress(publicURL)
        }
        let isClear = parts[0] == "http:" && !Self.isLoopback(String(Self.host(of: String(parts[2]))))
        guard !isClear else { throw .unprotected(listen.host) }
        self.publicOrigin = text
    }

    /// True when browsers reach it by https, so that cookies are for https only.
    package var isSecure: Bool { self.publicOrigin?.hasPrefix("https:") ?? false }

    /// True when pages can be read without signing in: on loopback, unless it is made public.
    package var isOpenForReading: Bool { self.isLoopback && self.publicOrigin == nil }

    /// Returns true for the hosts that requests may name. Others come from pages that have bent a name of theirs to this address.
    package func isOwn(host: String) -> Bool {
        if let publicOrigin { return publicOrigin.hasSuffix("//\(host.lowercased())") }
        return Self.isLoopback(Self.host(of: host))
    }

    /// Returns true for the origins that forms may come from; a browser that names none is old, and its forms carry the session's token.
    package func isOwn(origin: String?) -> Bool {
        guard let origin = origin?.lowercased() else { return true }
        if let publicOrigin { return origin == publicOrigin }
        guard origin.hasPrefix("http://") else { return false }
        return Self.isLoopback(Self.host(of: String(origin.dropFirst("http://".count))))
    }

    /// Returns an authority without its port.
    private static func host(of authority: String) -> String {
        if authority.hasPrefix("["), let end = authority.firstIndex(of: "]") {
            return String(authority[authority.index(after: authority.startIndex)..<end])
        }
        return String(authority.prefix { $0 != ":" })
    }

    private static func isLoopback(_ host: String) -> Bool {
        let host = host.lowercased()
        if host == "localhost" || host == "::1" { return true }
        let parts = host.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
    }
}
