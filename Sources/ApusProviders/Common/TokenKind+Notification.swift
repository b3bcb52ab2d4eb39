package import ApusCore
package import ApusMessages

extension TokenKind {
    /// Whether a token of this kind can be sent a notification of that kind. Pure.
    ///
    /// Apple gives an app a token of its own for each service, and knows a token under that service's topic only: under another it
    /// answers `DeviceTokenNotForTopic`, which says nothing against the token. Kinds that have no token kind here (complications,
    /// file providers, device management, location queries) go to what was registered as an ordinary one. Google's and the browsers'
    /// tokens take whatever can be written for them.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
    package func takes(_ kind: Notification.Kind, of provider: Provider) -> Bool {
        switch self {
        case .device:
            guard provider == .apns else { return true }
            return switch kind {
            case .alert, .background, .complication, .fileProvider, .mdm, .location: true
            case .voip, .liveActivity, .pushToTalk, .widgets, .controls: false
            }
        case .installation: return provider == .fcm
        case .voip: return provider == .apns && kind == .voip
        case .liveActivityStart, .liveActivityUpdate: return provider == .apns && kind == .liveActivity
        case .pushToTalk: return provider == .apns && kind == .pushToTalk
        case .widgets: return provider == .apns && kind == .widgets
        case .controls: return provider == .apns && kind == .controls
        }
    }
}
