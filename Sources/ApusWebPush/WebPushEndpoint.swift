internal import ApusCore

/// The scheme, host and port of endpoints: what a token is signed for and connections are made to (RFC 6454 §4).
package struct WebPushOrigin: Hashable, Sendable, CustomStringConvertible {
    /// The host in lower case.
    package let host: String
    /// The port.
    package let port: Int

    /// The origin as text, such as `https://web.push.apple.com`; the port stands in it unless it is 443.
    package var text: String { "https://\(self.authority)" }
    /// The host, with the port unless it is 443.
    package var authority: String { WebAddress(host: self.host, port: self.port).authority }
    /// The origin as text.
    package var description: String { self.text }

    /// Creates an origin.
    package init(host: String, port: Int = WebAddress.securePort) {
        self.host = host.lowercased()
        self.port = port
    }
}

/// The address of a subscription: opaque but for its origin, and a secret, since whoever knows it may send to it.
package struct WebPushEndpoint: Hashable, Sendable {
    /// The origin.
    package let origin: WebPushOrigin
    /// The path with its query.
    package let path: String

    /// Parses an endpoint: an https URL without user name and fragment; nil for anything else.
    package init?(_ text: String) {
        guard let address = WebAddress(https: text) else { return nil }
        self.origin = WebPushOrigin(host: address.host, port: address.port)
        self.path = address.path
    }
}
