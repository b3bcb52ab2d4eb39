package import ApusMessages
internal import ApusProviders

/// Apple's push types: one line each of what the header says, which topic goes with it and what may be in it.
///
/// Source: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
package enum APNsPushType: String, CaseIterable, Sendable {
    /// Shown to a person.
    case alert
    /// Wakes the app.
    case background
    /// An incoming call.
    case voip
    /// A watch complication.
    case complication
    /// A file provider's change.
    case fileprovider
    /// Device management.
    case mdm
    /// A location query.
    case location
    /// A Live Activity.
    case liveactivity
    /// Push to talk.
    case pushtotalk
    /// Widgets to reload.
    case widgets
    /// Controls to reload.
    case controls

    /// The push type of a kind of notification.
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

    /// What the topic has after the bundle id. An MDM topic is no bundle id: it is taken as it is.
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

    /// The topic of an app: its bundle id with the suffix. The id is taken for what it is, and may end as a suffix does.
    package func topic(bundleID: String) -> String { bundleID + self.topicSuffix }

    /// Bytes of the body at most. Above it APNs answers 413 `PayloadTooLarge`.
    package var payloadBytesMax: Int { self == .voip ? 5_120 : 4_096 }

    /// `apns-priority` when the publisher leaves it open: what a person waits for goes at once, what only informs the app
    /// may wait for the device's next chance.
    package var defaultPriority: APNsPriority {
        switch self {
        case .alert, .voip, .liveactivity, .pushtotalk, .mdm, .location: .immediately
        case .background, .complication, .fileprovider, .widgets, .controls: .consideringDevicePower
        }
    }
}

/// Apple's `apns-priority`.
///
/// Source: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
package enum APNsPriority: Int, CaseIterable, Sendable {
    /// At once.
    case immediately = 10
    /// Considering the device's power.
    case consideringDevicePower = 5
    /// Power first: never wakes the device.
    case prioritizingDevicePower = 1

    /// Of a notification's own words.
    package init(_ priority: Notification.Priority) {
        switch priority {
        case .high: self = .immediately
        case .normal: self = .consideringDevicePower
        case .low: self = .prioritizingDevicePower
        }
    }
}
