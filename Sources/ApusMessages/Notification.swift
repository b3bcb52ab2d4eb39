public import ApusCore

/// What is shown or handed to the app, said once for all providers.
///
/// Schema: `Protos/apus/v1/notification.proto`. Empty strings and lists mean "not said".
public struct Notification: Hashable, Sendable {
    /// What it is for: Apple's push types by name, each with the topic that belongs to it. FCM takes ``alert``, ``background`` and
    /// ``voip``; the rest is for Apple alone.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
    public enum Kind: UInt8, CaseIterable, Sendable {
        /// Shown to a person: an alert, a badge or a sound. Push type `alert`.
        case alert = 1
        /// Wakes the app and shows nothing; priority ``Priority/normal`` only, and not more than two or three an hour. Push type
        /// `background`.
        case background = 2
        /// An incoming call, to a PushKit token; 5,120 bytes instead of 4,096. Push type `voip`, topic with `.voip`.
        case voip = 3
        /// A watch complication's update. Topic with `.complication`.
        case complication = 4
        /// A change for a file provider extension. Push type `fileprovider`, topic with `.pushkit.fileprovider`.
        case fileProvider = 5
        /// Device management, its payload is `mdm` and nothing else. The topic is the UID of the MDM push certificate.
        case mdm = 6
        /// A location query; needs a key, not a certificate. Topic with `.location-query`.
        case location = 7
        /// A Live Activity's start, update or end. Push type `liveactivity`, topic with `.push-type.liveactivity`.
        case liveActivity = 8
        /// Starts the push-to-talk service for a channel; priority ``Priority/high`` only. Topic with `.voip-ptt`.
        case pushToTalk = 9
        /// Widgets to reload. Topic with `.push-type.widgets`.
        case widgets = 10
        /// Controls to reload. Topic with `.push-type.controls`.
        case controls = 11
    }

    /// How urgent it is.
    ///
    /// Source: Apple's `apns-priority`
    /// (https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns), Google's
    /// `AndroidMessagePriority` (https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages), `Urgency` of
    /// RFC 8030 §5.3.
    public enum Priority: UInt8, CaseIterable, Sendable {
        /// At once, even if that wakes a sleeping device: APNs 10, Android HIGH, Urgency high.
        case high = 1
        /// Considering the device's power, perhaps grouped and later: APNs 5, Android NORMAL, Urgency normal.
        case normal = 2
        /// The device's power above all, never waking it: APNs 1, Android NORMAL, Urgency low.
        case low = 3
    }

    /// How much it may interrupt: Apple's `interruption-level`.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/generating-a-remote-notification
    public enum InterruptionLevel: UInt8, CaseIterable, Sendable {
        /// Quietly into the list.
        case passive = 1
        /// The default.
        case active = 2
        /// Through scheduled summaries and Focus.
        case timeSensitive = 3
        /// Through the mute switch; needs Apple's entitlement.
        case critical = 4
    }

    /// Whether FCM draws it or hands the same words as data to the app.
    ///
    /// Source: https://firebase.google.com/docs/cloud-messaging/customize-messages/set-message-type
    public enum FCMStyle: UInt8, CaseIterable, Sendable {
        /// FCM draws.
        case notification = 1
        /// The app draws.
        case data = 2
    }

    /// What the app's icon shows.
    public enum Badge: Hashable, Sendable {
        /// That number; 0 removes it.
        case set(UInt32)
        /// That many more than before.
        case increment(UInt32)
    }

    /// Until when it is worth delivering: Apple's `apns-expiration`, FCM's `ttl`, Web Push's `TTL`. Without one Apple stores for 30
    /// days at most, and FCM for four weeks.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns, https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages
    public enum Expiry: Hashable, Sendable {
        /// Until then.
        case at(UnixMilliseconds)
        /// That many milliseconds from publication; 0: one attempt, never stored.
        case ttl(milliseconds: Int64)
    }

    /// What is heard: Apple's `sound`, as a name or as the dictionary of a critical alert.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/generating-a-remote-notification
    public struct Sound: Hashable, Sendable {
        /// A file in the app, or "default".
        public var name: String
        /// True when it is an APNs critical alert.
        public var critical: Bool
        /// 0 to 1; critical alerts only.
        public var volume: Double?

        /// Creates a sound.
        public init(name: String = "default", critical: Bool = false, volume: Double? = nil) {
            self.name = name
            self.critical = critical
            self.volume = volume
        }
    }

    /// Another language's words: what is not empty replaces the notification's own.
    public struct LocaleVariant: Hashable, Sendable {
        /// BCP 47: "fr", "pt-BR".
        public var locale: String
        /// Headline.
        public var title: String = ""
        /// Second line.
        public var subtitle: String = ""
        /// Text.
        public var body: String = ""
        /// https URL of a picture.
        public var image: String = ""
        /// What opens.
        public var clickAction: String = ""

        /// Creates a variant for that locale.
        public init(locale: String) { self.locale = locale }
    }

    /// A Live Activity's change.
    ///
    /// Source: https://developer.apple.com/documentation/activitykit/starting-and-updating-live-activities-with-activitykit-push-notifications
    public struct LiveActivity: Hashable, Sendable {
        /// What happens to it.
        public enum Event: UInt8, CaseIterable, Sendable {
            /// It begins.
            case start = 1
            /// Its content changes.
            case update = 2
            /// It is over.
            case end = 3
        }

        /// What happens to it.
        public var event: Event
        /// `content-state`, a JSON object that the app's `ContentState` decodes with the standard decoder.
        public var contentStateJSON: String = ""
        /// Start only, required there.
        public var attributesType: String = ""
        /// Start only, required there: a JSON object.
        public var attributesJSON: String = ""
        /// Nil: when sent. Of two updates the device shows the later one.
        public var timestamp: UnixMilliseconds?
        /// The time at which it is shown as stale.
        public var staleAt: UnixMilliseconds?
        /// End only: when it is removed, within four hours; in the past: at once; nil for after up to four hours.
        public var dismissAt: UnixMilliseconds?
        /// iOS 18: start, and ask for an update token.
        public var inputPushToken: Bool = false
        /// iOS 18: start, and listen on that broadcast channel.
        public var inputPushChannel: String = ""
        /// Which of a registered device's tokens: the activity under which it was registered. Empty, to start: that under
        /// ``attributesType``. Update and end of registered devices need it; addresses and channels name their token themselves.
        public var activityID: String = ""

        /// Creates a change.
        public init(event: Event) { self.event = event }
    }

    /// What it is for.
    public var kind: Kind = .alert
    /// Headline.
    public var title: String = ""
    /// Second line.
    public var subtitle: String = ""
    /// Text.
    public var body: String = ""
    /// Key of a localised headline in the app.
    public var titleLocKey: String = ""
    /// What fills its places.
    public var titleLocArgs: [String] = []
    /// Key of a localised second line in the app.
    public var subtitleLocKey: String = ""
    /// What fills its places.
    public var subtitleLocArgs: [String] = []
    /// Key of a localised text in the app.
    public var bodyLocKey: String = ""
    /// What fills its places.
    public var bodyLocArgs: [String] = []
    /// Launch image of the app.
    public var launchImage: String = ""
    /// https URL of a picture.
    public var image: String = ""
    /// What is heard.
    public var sound: Sound?
    /// What the icon shows.
    public var badge: Badge?
    /// Category of actions.
    public var category: String = ""
    /// Group it belongs to.
    public var threadID: String = ""
    /// Android notification channel.
    public var channelID: String = ""
    /// Android, Web: replaces the one with the same tag.
    public var tag: String = ""
    /// Android intent filter; Web: https link.
    public var clickAction: String = ""
    /// "#rrggbb".
    public var color: String = ""
    /// Handed to the app beside what is shown.
    public var data: [String: String] = [:]
    /// Nil: high for what is shown, normal for background.
    public var priority: Priority?
    /// Nil: the provider's own storage time.
    public var expiry: Expiry?
    /// apns-collapse-id, Android collapse_key.
    public var collapseKey: String = ""
    /// Wake the app besides.
    public var contentAvailable: Bool = false
    /// Run the service extension.
    public var mutableContent: Bool = false
    /// How much it may interrupt.
    public var interruptionLevel: InterruptionLevel?
    /// 0 to 1; any number for Live Activities.
    public var relevanceScore: Double?
    /// Window to bring forward.
    public var targetContentID: String = ""
    /// Focus filter.
    public var filterCriteria: String = ""
    /// A Live Activity's change.
    public var liveActivity: LiveActivity?
    /// Other languages' words.
    public var variants: [LocaleVariant] = []
    /// A JSON object merged last into the APNs payload.
    public var apnsJSON: String = ""
    /// A JSON object merged last into FCM's `android`.
    public var androidJSON: String = ""
    /// A JSON object merged last into the Web Push payload, or FCM's `webpush`.
    public var webpushJSON: String = ""
    /// On Android.
    public var androidStyle: FCMStyle = .notification
    /// On iOS through FCM.
    public var fcmAPNsStyle: FCMStyle = .notification
    /// In browsers through FCM.
    public var fcmWebpushStyle: FCMStyle = .notification
    /// FCM's analytics label.
    public var analyticsLabel: String = ""
    /// A JSON object merged last into FCM's `apns`, after ``apnsJSON`` has been merged into its payload. It has the members `headers`,
    /// `payload`, `fcm_options` and `live_activity_token`; direct APNs knows nothing of it.
    public var fcmAPNsJSON: String = ""

    /// Creates an alert that says nothing yet.
    public init() {}
}
