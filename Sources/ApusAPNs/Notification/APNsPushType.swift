package import ApusMessages
internal import ApusProviders

/// Apple's push types, each with its header value, its topic and its limits.
///
/// Source: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
package enum APNsPushType: String, CaseIterable, Sendable {
    /// A notification for a person.
    case alert
    /// A push that wakes the app.
    case background
    /// An incoming call.
    case voip
    /// A watch complication.
    case complication
    /// A file provider's change.
    case fileprovider
    /// A command of device management.
    case mdm
    /// A location query.
    case location
    /// A Live Activity.
    case liveactivity
    /// Push to talk.
    case pushtotalk
    /// A reload of widgets.
    case widgets
    /// A reload of controls.
    case controls

    /// Returns the push type of a kind of notification.
    package init(_ kind: Notification.Kind) {
        switch kind {
        case .alert: self = .alert
        case .background: self = .background
        case .voip: self = .voip
        case .complication: self = .complication
        case .fileProvider: self = .fileprovider
        case .mdm: self = .mdm
        case .location: self = .location
        case .liveActivity: self = .liveactivity
        case .pushToTalk: self = .pushtotalk
        case .widgets: self = .widgets
        case .controls: self = .controls
        }
    }

    /// The suffix of the topic behind the bundle id. An MDM topic is not a bundle id and stays as it is.
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

    /// Returns the topic of an app: its bundle id with the suffix. The id is used unchanged, even if it ends in a suffix.
    package func topic(bundleID: String) -> String { bundleID + self.topicSuffix }

    /// The maximum bytes of the body. Beyond them APNs answers 413 `PayloadTooLarge`.
    package var payloadBytesMax: Int { self == .voip ? 5_120 : 4_096 }

    /// The value of `apns-priority` when the publisher sets none: a notification for a person is sent at once, one that
    /// only informs the app may wait for the device's next chance.
    package var defaultPriority: APNsPriority {
        switch self {
        case .alert, .voip, .liveactivity, .pushtotalk, .mdm, .location: .immediately
        case .background, .complication, .fileprovider, .widgets, .controls: .consideringDevicePower
        }
    }
}

/// The values of Apple's `apns-priority`.
///
/// Source: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
package enum APNsPriority: Int, CaseIterable, Sendable {
    /// The device gets the notification at once.
    case immediately = 10
    /// Delivery considers the device's power.
    case consideringDevicePower = 5
    /// Delivery puts power first and never wakes the device.
    case prioritizingDevicePower = 1

    /// Converts the priority of a notification.
    package init(_ priority: Notification.Priority) {
        switch priority {
        case .high: self = .immediately
        case .normal: self = .consideringDevicePower
        case .low: self = .prioritizingDevicePower
        }
    }
}
