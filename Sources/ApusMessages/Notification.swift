public import ApusCore

/// The content of a notification, shown or passed to the app, described once for all providers.
///
/// Schema: `Protos/apus/v1/notification.proto`. Empty strings and lists stand for missing values.
public struct Notification: Hashable, Sendable {
    /// The kinds of notifications: Apple's push types by name, each with its topic. FCM supports ``alert``,
    /// ``background`` and ``voip``; the others are for Apple alone.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
    public enum Kind: UInt8, CaseIterable, Sendable {
        /// Shown to a person: an alert, a badge or a sound. Push type `alert`.
        case alert = 1
        /// Wakes the app and shows nothing; priority ``Priority/normal`` only, and at most two or three an hour. Push type `background`.
        case background = 2
        /// An incoming call, to a PushKit token; 5,120 bytes instead of 4,096. Push type `voip`, topic with `.voip`.
        case voip = 3
        /// A watch complication's update. Topic with `.complication`.
        case complication = 4
        /// A change for a file provider extension. Push type `fileprovider`, topic with `.pushkit.fileprovider`.
        case fileProvider = 5
        /// Device management, whose payload is `mdm` and nothing else. The topic is the UID of the MDM push certificate.
        case mdm = 6
        /// A location query; needs a key, not a certificate. Topic with `.location-query`.
        case location = 7
        /// A Live Activity's start, update or end. Push type `liveactivity`, topic with `.push-type.liveactivity`.
        case liveActivity = 8
        /// Starts the push-to-talk service for a channel; priority ``Priority/high`` only. Topic with `.voip-ptt`.
        case pushToTalk = 9
        /// A reload of widgets. Topic with `.push-type.widgets`.
        case widgets = 10
        /// A reload of controls. Topic with `.push-type.controls`.
        case controls = 11
    }

    /// The urgency of delivery.
    ///
    /// Source: Apple's `apns-priority`
    /// (https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns), Google's
    /// `AndroidMessagePriority` (https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages), `Urgency` of
    /// RFC 8030 §5.3.
    public enum Priority: UInt8, CaseIterable, Sendable {
        /// Delivers at once, even if that wakes a sleeping device: APNs 10, Android HIGH, Urgency high.
        case high = 1
        /// Considers the device's power, perhaps grouped and later: APNs 5, Android NORMAL, Urgency normal.
        case normal = 2
        /// Puts the device's power first and never wakes it: APNs 1, Android NORMAL, Urgency low.
        case low = 3
    }

    /// The levels of interruption: Apple's `interruption-level`.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/generating-a-remote-notification
    public enum InterruptionLevel: UInt8, CaseIterable, Sendable {
        /// Adds the notification to the list without a sound.
        case passive = 1
        /// Is the default level.
        case active = 2
        /// Breaks through scheduled summaries and Focus.
        case timeSensitive = 3
        /// Breaks through the mute switch; needs Apple's entitlement.
        case critical = 4
    }

    /// The choice between a notification that FCM draws and data from which the app draws the same texts.
    ///
    /// Source: https://firebase.google.com/docs/cloud-messaging/customize-messages/set-message-type
    public enum FCMStyle: UInt8, CaseIterable, Sendable {
        /// FCM draws the notification.
        case notification = 1
        /// The app draws the notification.
        case data = 2
    }

    /// The change of the badge on the app's icon.
    public enum Badge: Hashable, Sendable {
        /// Sets the number; 0 removes the badge.
        case set(UInt32)
        /// Adds to the number.
        case increment(UInt32)
    }

    /// The end of a notification's worth: Apple's `apns-expiration`, FCM's `ttl`, Web Push's `TTL`. Without one Apple
    /// stores it for 30 days at most, and FCM for four weeks.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns, https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages
    public enum Expiry: Hashable, Sendable {
        /// A point in time.
        case at(UnixMilliseconds)
        /// Milliseconds from publication; 0 for one attempt, never stored: to named recipients it expires a minute after its publication or start.
        case ttl(milliseconds: Int64)
    }

    /// The sound: Apple's `sound`, as a name or as the dictionary of a critical alert.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/generating-a-remote-notification
    public struct Sound: Hashable, Sendable {
        /// A file in the app, or "default".
        public var name: String
        /// True for a critical alert of APNs.
        public var critical: Bool
        /// The volume from 0 to 1; critical alerts only.
        public var volume: Double?

        /// Creates a sound.
        public init(name: String = "default", critical: Bool = false, volume: Double? = nil) {
            self.name = name
            self.critical = critical
            self.volume = volume
        }
    }

    /// The texts in another language: those that are not empty replace the notification's own.
    public struct LocaleVariant: Hashable, Sendable {
        /// The language tag (BCP 47): "fr", "pt-BR".
        public var locale: String
        /// The title.
        public var title: String = ""
        /// The subtitle.
        public var subtitle: String = ""
        /// The body.
        public var body: String = ""
        /// The https URL of a picture.
        public var image: String = ""
        /// The target of a tap.
        public var clickAction: String = ""

        /// Creates a variant for a locale.
        public init(locale: String) { self.locale = locale }
    }

    /// A start, update or end of a Live Activity.
    ///
    /// Source: https://developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications
    public struct LiveActivity: Hashable, Sendable {
        /// The kinds of changes.
        public enum Event: UInt8, CaseIterable, Sendable {
            /// The activity starts.
            case start = 1
            /// The activity's content changes.
            case update = 2
            /// The activity ends.
            case end = 3
        }

        /// The kind of change.
        public var event: Event
        /// `content-state`, a JSON object that the app's `ContentState` decodes with the standard decoder.
        public var contentStateJSON: String = ""
        /// The attributes' type; required at the start, and only allowed there.
        public var attributesType: String = ""
        /// The attributes, a JSON object; required at the start, and only allowed there.
        public var attributesJSON: String = ""
        /// The time of the change; nil for the time of sending. Of two updates the device shows the later one.
        public var timestamp: UnixMilliseconds?
        /// The time at which the activity is shown as stale.
        public var staleAt: UnixMilliseconds?
        /// The time of removal; at the end only, within four hours; a past time removes at once; nil removes after up to four hours.
        public var dismissAt: UnixMilliseconds?
        /// iOS 18: start, and request an update token.
        public var inputPushToken: Bool = false
        /// iOS 18: start, and listen on the given broadcast channel.
        public var inputPushChannel: String = ""
        /// The activity under which a registered device's token was registered. Empty at the start for the one under
        /// ``attributesType``. Update and end need it for registered devices; addresses and channels name their token
        /// themselves.
        public var activityID: String = ""

        /// Creates a change.
        public init(event: Event) { self.event = event }
    }

    /// The kind of notification.
    public var kind: Kind = .alert
    /// The title.
    public var title: String = ""
    /// The subtitle.
    public var subtitle: String = ""
    /// The body.
    public var body: String = ""
    /// The key of a localised title in the app.
    public var titleLocKey: String = ""
    /// The arguments of the localised title.
    public var titleLocArgs: [String] = []
    /// The key of a localised subtitle in the app.
    public var subtitleLocKey: String = ""
    /// The arguments of the localised subtitle.
    public var subtitleLocArgs: [String] = []
    /// The key of a localised body in the app.
    public var bodyLocKey: String = ""
    /// The arguments of the localised body.
    public var bodyLocArgs: [String] = []
    /// The launch image of the app.
    public var launchImage: String = ""
    /// The https URL of a picture.
    public var image: String = ""
    /// The sound.
    public var sound: Sound?
    /// The change of the badge.
    public var badge: Badge?
    /// The category of actions.
    public var category: String = ""
    /// The group of the notification.
    public var threadID: String = ""
    /// The Android notification channel.
    public var channelID: String = ""
    /// Android, Web: the tag by which a notification replaces another.
    public var tag: String = ""
    /// Android: the intent filter; Web: the https link.
    public var clickAction: String = ""
    /// The colour as "#rrggbb".
    public var color: String = ""
    /// The data for the app.
    public var data: [String: String] = [:]
    /// The urgency; nil for high when the notification is shown, normal for background.
    public var priority: Priority?
    /// The expiry; nil for the provider's own storage time.
    public var expiry: Expiry?
    /// The key for apns-collapse-id and Android's collapse_key.
    public var collapseKey: String = ""
    /// True to wake the app as well.
    public var contentAvailable: Bool = false
    /// True to run the service extension.
    public var mutableContent: Bool = false
    /// The level of interruption.
    public var interruptionLevel: InterruptionLevel?
    /// The relevance from 0 to 1; any number for Live Activities.
    public var relevanceScore: Double?
    /// The window to bring forward.
    public var targetContentID: String = ""
    /// The Focus filter.
    public var filterCriteria: String = ""
    /// The change of a Live Activity.
    public var liveActivity: LiveActivity?
    /// The texts in other languages.
    public var variants: [LocaleVariant] = []
    /// A JSON object merged last into the APNs payload.
    public var apnsJSON: String = ""
    /// A JSON object merged last into FCM's `android`.
    public var androidJSON: String = ""
    /// A JSON object merged last into the Web Push payload, or FCM's `webpush`.
    public var webpushJSON: String = ""
    /// The drawing of the notification on Android.
    public var androidStyle: FCMStyle = .notification
    /// The drawing of the notification on iOS through FCM.
    public var fcmAPNsStyle: FCMStyle = .notification
    /// The drawing of the notification in browsers through FCM.
    public var fcmWebpushStyle: FCMStyle = .notification
    /// The analytics label of FCM.
    public var analyticsLabel: String = ""
    /// A JSON object merged last into FCM's `apns`, after ``apnsJSON`` has been merged into its payload. It has the
    /// members `headers`, `payload`, `fcm_options` and `live_activity_token`; the direct route to APNs ignores it.
    public var fcmAPNsJSON: String = ""

    /// Creates an empty alert.
    public init() {}

    /// True when raw JSON is merged into what a provider gets.
    package var hasRawJSON: Bool {
        !self.apnsJSON.isEmpty || !self.androidJSON.isEmpty || !self.webpushJSON.isEmpty || !self.fcmAPNsJSON.isEmpty
    }

    /// True when a part is for one provider or platform alone: raw JSON, or data in place of a drawn notification.
    package var hasProviderParts: Bool {
        self.hasRawJSON || self.androidStyle == .data || self.fcmAPNsStyle == .data || self.fcmWebpushStyle == .data
    }

    /// The kind of token that the notification goes to at a provider with a token for each service.
    package var tokenKind: TokenKind {
        switch self.kind {
        case .alert, .background, .complication, .fileProvider, .mdm, .location: .device
        case .voip: .voip
        case .liveActivity: self.liveActivity?.event == .start ? .liveActivityStart : .liveActivityUpdate
        case .pushToTalk: .pushToTalk
        case .widgets: .widgets
        case .controls: .controls
        }
    }
}
