internal import ApusCore
package import ApusMessages
internal import ApusProviders

/// The id of a broadcast channel: base64 of a length that Apple does not specify, as Apple returned it.
///
/// Source: https://developer.apple.com/documentation/usernotifications/sending-channel-management-requests-to-apns
package struct APNsChannelID: Hashable, Sendable {
    /// The text of `apns-channel-id`.
    package let text: String

    /// Checks that the text can be an id, so that it can stand in a header.
    ///
    /// - Parameter field: the field's name in a refusal.
    package init(_ text: String, field: String = "target.apns_channel.channel_id") throws(Problem) {
        let padding = text.utf8.reversed().prefix { $0 == 0x3d }.count
        let isBase64 = text.utf8.dropLast(padding).allSatisfy { byte in
            switch byte {
            case 0x61...0x7a, 0x41...0x5a, 0x30...0x39, 0x2b, 0x2f, 0x2d, 0x5f: true
            default: false
            }
        }
        guard isBase64, padding <= 2, (padding + 1...Limits.nameBytesMax).contains(text.utf8.count) else {
            throw Problem(.invalid, field, "must be base64, at most \(Limits.nameBytesMax) bytes, as Apple gave it")
        }
        self.text = text
    }
}

/// The storage policy of a channel for devices that are offline; fixed at creation.
///
/// Source: https://developer.apple.com/documentation/usernotifications/sending-channel-management-requests-to-apns
package enum APNsChannelStorage: Int64, CaseIterable, Sendable {
    /// Nothing is stored: more messages may be published.
    case none = 0
    /// The latest message is stored, for ``millisecondsMax`` at most.
    case latest = 1

    /// The time for which a channel keeps its latest message: eight hours.
    package static let millisecondsMax: Int64 = 8 * 3_600_000
}
