/// Lists the hosts of push services that requests may go to. An endpoint comes from a browser's user and is hostile: without a list, anyone
/// who registers could make us call any server.
///
/// The list has the push services of Chrome and its kin, Firefox, Safari and Edge, as their subscriptions name them.
package struct WebPushHosts: Hashable, Sendable {
    private static let names: Set<String> = ["fcm.googleapis.com", "jmt17.google.com"]
    private static let suffixes = [".push.services.mozilla.com", ".push.apple.com", ".notify.windows.com"]

    private let further: Set<String>

    /// Creates the list of the known hosts.
    ///
    /// - Parameter further: names of more hosts, in lower case; one that begins with a dot stands for all below it.
    package init(further: [String] = []) { self.further = Set(further) }

    /// Returns what is wrong with the host and port of an endpoint whose form is right; nil when nothing is.
    package func breach(_ endpoint: String) -> String? {
        let authority = endpoint.dropFirst("https://".count).prefix { $0 != "/" && $0 != "?" }.lowercased()
        var host = authority[...]
        if let colon = authority.firstIndex(of: ":") {
            guard authority[colon...] == ":443" else { return "must be at port 443" }
            host = authority[..<colon]
        }
        let isKnown =
            Self.names.contains(String(host)) || self.further.contains(String(host))
            || Self.suffixes.contains { Self.is(host, below: $0) }
            || self.further.contains { $0.hasPrefix(".") && Self.is(host, below: $0) }
        return isKnown ? nil : "must be at a push service that is known or named in registration.webpush_hosts"
    }

    /// Returns true when a text is a host's name as it may stand in the list, with or without a dot before it.
    package static func isName(_ text: String) -> Bool {
        text.utf8.count > 1
            && text.utf8.allSatisfy { byte in
                (0x61...0x7a).contains(byte) || (0x30...0x39).contains(byte) || byte == 0x2d || byte == 0x2e
            }
    }

    private static func `is`(_ host: Substring, below suffix: String) -> Bool {
        host.hasSuffix(suffix) && host.utf8.count > suffix.utf8.count && Self.isName(String(host))
    }
}
