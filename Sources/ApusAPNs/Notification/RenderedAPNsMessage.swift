package import ApusProviders

/// A notification in one language as APNs takes it: everything but the token, the request's id and the credential.
package struct RenderedAPNsMessage: Hashable, Sendable {
    /// `apns-topic`: bundle id and suffix.
    package let topic: String
    /// `apns-push-type`.
    package let pushType: APNsPushType
    /// `apns-priority`.
    package let priority: APNsPriority
    /// `apns-expiration` in seconds since 1970. 0: one attempt, never stored. Nil: no header; Apple stores up to 30 days.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns,
    /// https://developer.apple.com/documentation/usernotifications/viewing-the-status-of-push-notifications-using-metrics-and-apns
    package let expiration: Int64?
    /// `apns-collapse-id`.
    package let collapseID: String?
    /// The JSON body.
    package let body: RenderedBody

    /// What `:path` begins with; the token in hexadecimal follows.
    package static let pathPrefix = "/3/device/"

    /// The headers that are the same for every device, in a fixed order.
    package var headers: [(name: String, value: String)] {
        var headers = [
            ("apns-topic", self.topic),
            ("apns-push-type", self.pushType.rawValue),
            ("apns-priority", String(self.priority.rawValue)),
        ]
        if let expiration { headers.append(("apns-expiration", String(expiration))) }
        if let collapseID { headers.append(("apns-collapse-id", collapseID)) }
        return headers
    }
}
