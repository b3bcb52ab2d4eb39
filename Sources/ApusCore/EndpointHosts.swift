/// The hosts of push services to which browsers' subscriptions may lead.
///
/// An endpoint comes from a browser's user and is hostile: without a list of hosts, whoever registers could make us
/// call any server. The list names the push services of Chrome and its kin, Firefox, Safari and Edge.
package struct EndpointHosts: Hashable, Sendable {
    private static let names: Set<String> = ["fcm.googleapis.com", "jmt17.google.com"]
    /// The hosts below the suffixes that are known to exist; those of Windows have numbers.
    private static let services: Set<String> = ["updates.push.services.mozilla.com", "web.push.apple.com"]
    private static let suffixes = [".push.services.mozilla.com", Self.appleSuffix, ".notify.windows.com"]
    /// The beginnings of the paths at which a service takes messages for browsers, by a suffix of its hosts. Beside them such a host has interfaces
    /// that ask for credentials of other kinds, and a refusal of ours there would look like one of our key.
    private static let paths = [
        "fcm.googleapis.com": ["/fcm/send/", "/wp/", "/preprod/wp/"], "jmt17.google.com": ["/fcm/send/", "/wp/"],
        ".push.services.mozilla.com": ["/wpush/"],
    ]
    /// The beginning of the names below ``appleSuffix`` of Apple's interfaces for apps, which ask for credentials of other kinds.
    private static let appleInterfaces = "api"
    private static let appleSuffix = ".push.apple.com"
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
        guard self.contains(host) else {
            return "must be at a push service that is known or named in the app's webpush.hosts"
        }
        let path = endpoint.dropFirst("https://".count + authority.utf8.count)
        return self.takesMessages(String(host), at: String(path))
            ? nil : "must be an address at which the push service takes messages for browsers"
    }

    /// Returns true when a known service takes messages for browsers at that path of a host in lower case, and for every host that the list
    /// names or that is of no known service.
    package func takesMessages(_ host: String, at path: String) -> Bool {
        guard self.hasKnown, !self.names(host) else { return true }
        if Self.is(host, below: Self.appleSuffix) { return !host.hasPrefix(Self.appleInterfaces) }
        let beginnings = Self.paths.first { known, _ in
            known.hasPrefix(".") ? Self.is(host, below: known) : host == known
        }
        guard let beginnings = beginnings?.value else { return true }
        // A server may take a path with dots for another one.
        let segments = path.prefix { $0 != "?" }.lowercased().replacing("%2e", with: ".").split(separator: "/")
        return beginnings.contains { path.hasPrefix($0) } && !segments.contains("..") && !segments.contains(".")
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
