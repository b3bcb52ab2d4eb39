/// The purpose of a notification, as `apns-push-type` names it.
///
/// Source: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
package enum APNsPushType: String, CaseIterable, Sendable {
    case alert
    case background
    case voip
    case complication
    case fileprovider
    case mdm
    case location
    case liveactivity
    case pushtotalk
    case widgets
    case controls

    /// The text that follows the bundle id in the topic.
    package var topicSuffix: String {
        switch self {
        case .alert, .background, .mdm: ""
        case .voip: ".voip"
        case .complication: ".complication"
        case .fileprovider: ".pushkit.fileprovider"
        case .location: ".location-query"
        case .liveactivity: ".push-type.liveactivity"
        case .pushtotalk: ".voip-ptt"
        case .widgets: ".push-type.widgets"
        case .controls: ".push-type.controls"
        }
    }

    /// The maximum bytes of a body. Apple: 5 KB for VoIP, 4 KB for all others.
    package var payloadBytesMax: Int { self == .voip ? 5_120 : 4_096 }
}
