/// The hosts of push services to which browsers' subscriptions may lead.
///
/// An endpoint comes from a browser's user and is hostile: without a list of hosts, whoever registers could make us
/// call any server. The list names the push services of Chrome and its kin, Firefox, Safari and Edge.
package struct EndpointHosts: Hashable, Sendable {
    private static let names: Set<String> = ["fcm.googleapis.com", "jmt17.google.com"]
    /// The hosts below the suffixes that are known to exist; those of Windows have numbers.
    private static let services: Set<String> = ["updates.push.services.mozilla.com", "web.push.apple.com"]
    private static let suffixes = [".push.services.mozilla.com", ".push.apple.com", ".notify.windows.com"]
    /// The host in endpoints of browsers that have withdrawn their subscription: Edge on Android writes it.
    private static let withdrawn = "permanently-removed.invalid"

    /// The name that stands for every host of the public internet.
    package static let anyPublic = "any-public"

    private let further: Set<String>
    private let hasKnown: Bool
    private let hasAnyPublic: Bool

    /// Creates a list of the known hosts and others.
    ///
    /// - Parameter further: names in lower case; one that begins with a dot stands for all below it, and ``anyPublic`` for every host that
    ///   has a name in the domain name system.
    package init(further: [String] = []) {
        self.further = Set(further).subtracting([Self.anyPublic])
        self.hasKnown = true
        self.hasAnyPublic = further.contains(Self.anyPublic)
    }

    /// Creates a list of the hosts alone that are named one by one.
    package init(only hosts: [String]) {
        self.further = Set(hosts).subtracting([Self.anyPublic])
        self.hasKnown = false
        self.hasAnyPublic = false
    }

    /// Returns what is wrong with the host and port of an endpoint whose form is right; nil for nothing.
    package func breach(_ endpoint: String) -> String? {
        let authority = endpoint.dropFirst("https://".count).prefix { $0 != "/" && $0 != "?" }.lowercased()
        var host = authority[...]
        if let colon = authority.firstIndex(of: ":") {
            guard authority[colon...] == ":443" else { return "must be at port 443" }
            host = authority[..<colon]
        }
        if host == Self.withdrawn { return "belongs to a subscription that the browser has withdrawn: subscribe again" }
        return self.contains(host)
            ? nil : "must be at a push service that is known or named in the app's webpush.hosts"
    }

    /// Returns true when a host, in lower case, is in the list.
    package func contains(_ host: some StringProtocol) -> Bool {
        self.hasKnown && (Self.names.contains(String(host)) || Self.suffixes.contains { Self.is(host, below: $0) })
            || self.further.contains(String(host))
            || self.further.contains { $0.hasPrefix(".") && Self.is(host, below: $0) }
            || self.hasAnyPublic && Self.isPublicName(host)
    }

    /// Returns true when the list names the host itself, not only a domain above it.
    package func names(_ host: String) -> Bool { self.further.contains(host) }

    /// Returns true when the host is one of a push service that is known to exist.
    package static func isService(_ host: String) -> Bool { Self.names.contains(host) || Self.services.contains(host) }

    /// Returns true when a text has the form of a full name: two labels at least, and a letter in the last one, which an IP address has not.
    private static func isPublicName(_ host: some StringProtocol) -> Bool {
        let labels = host.split(separator: ".", omittingEmptySubsequences: false)
        return labels.count > 1 && Self.isName(String(host))
            && labels.allSatisfy { !$0.isEmpty && !$0.hasPrefix("-") && !$0.hasSuffix("-") }
            && labels[labels.count - 1].utf8.contains { (0x61...0x7a).contains($0) }
    }

    /// Returns true when a text is a host's name as it may stand in the list, with or without a dot before it.
    package static func isName(_ text: String) -> Bool {
        text.utf8.count > 1
            && text.utf8.allSatisfy { byte in
                (0x61...0x7a).contains(byte) || (0x30...0x39).contains(byte) || byte == 0x2d || byte == 0x2e
            }
    }

    private static func `is`(_ host: some StringProtocol, below suffix: String) -> Bool {
        host.hasSuffix(suffix) && host.utf8.count > suffix.utf8.count && Self.isName(String(host))
    }
}
