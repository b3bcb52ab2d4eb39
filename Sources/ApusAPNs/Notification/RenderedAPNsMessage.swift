package import ApusProviders

/// Holds a notification rendered for APNs in one language: everything but the token, the request's id and the credential.
package struct RenderedAPNsMessage: Hashable, Sendable {
    /// The value of `apns-topic`: bundle id and suffix.
    package let topic: String
    /// The value of `apns-push-type`.
    package let pushType: APNsPushType
    /// The value of `apns-priority`.
    package let priority: APNsPriority
    /// The value of `apns-expiration` in seconds since 1970. 0: one attempt, never stored. Nil: no header; Apple stores up to 30 days.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns,
    /// https://developer.apple.com/documentation/usernotifications/viewing-the-status-of-push-notifications-using-metrics-and-apns
    package let expiration: Int64?
    /// The value of `apns-collapse-id`.
    package let collapseID: String?
    /// The JSON body.
    package let body: RenderedBody

    /// The beginning of `:path`; the token in hexadecimal follows.
    package static let pathPrefix = "/3/device/"

    /// The headers that are the same for every device, in a fixed order.
    package var headers: [(name: String, value: String)] {
        var headers: [(name: String, value: String)] = [
            ("apns-topic", self.topic),
            ("apns-push-type", self.pushType.rawValue),
            ("apns-priority", String(self.priority.rawValue)),
        ]
        if let expiration { headers.append(("apns-expiration", String(expiration))) }
        if let collapseID { headers.append(("apns-collapse-id", collapseID)) }
        return headers
    }
}
