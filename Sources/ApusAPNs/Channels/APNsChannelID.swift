internal import ApusCore
package import ApusMessages
internal import ApusProviders

/// A broadcast channel's name: base64 of a length that Apple leaves open, as Apple gave it.
///
/// Source: https://developer.apple.com/documentation/usernotifications/sending-channel-management-requests-to-apns
package struct APNsChannelID: Hashable, Sendable {
    /// As it stands in `apns-channel-id`.
    package let text: String

    /// Checks that it could be one: a header takes nothing else.
    ///
    /// - Parameter field: what a refusal calls it.
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

/// What a channel does with a message for devices that are away; fixed when it is made.
///
/// Source: https://developer.apple.com/documentation/usernotifications/sending-channel-management-requests-to-apns
package enum APNsChannelStorage: Int64, CaseIterable, Sendable {
    /// Nothing is kept: more messages may be published.
    case none = 0
    /// The latest message is kept, for ``millisecondsMax`` at most.
    case latest = 1

    /// How long a channel keeps its latest message: eight hours.
    package static let millisecondsMax: Int64 = 8 * 3_600_000
}
