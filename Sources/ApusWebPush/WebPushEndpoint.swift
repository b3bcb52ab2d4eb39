internal import ApusCore
package import ApusProviders

/// The address of a subscription: opaque but for its origin, and a secret, since whoever knows it may send to it.
package struct WebPushEndpoint: Hashable, Sendable {
    /// The origin.
    package let origin: Origin
    /// The path with its query.
    package let path: String

    /// Parses an endpoint: an https URL without user name and fragment; nil for anything else.
    package init?(_ text: String) {
        guard let address = WebAddress(https: text) else { return nil }
        self.origin = Origin(host: address.host, port: address.port)
        self.path = address.path
    }

    /// True when the service revokes subscriptions whose messages show nothing, so that none is sent to it.
    package var refusesSilence: Bool { Self.refusesSilence(self.origin) }

    /// True for Safari's service, which revokes a subscription whose messages show nothing.
    static func refusesSilence(_ origin: Origin) -> Bool { Self.isApple(origin) }

    /// True for Apple's service, of Safari and of web apps on iOS.
    static func isApple(_ origin: Origin) -> Bool { origin.host.hasSuffix(".push.apple.com") }
}
