import ApusCore
import ApusMessages

/// One value of each message with every field set to something of its own, so that no two can be mixed up unnoticed.
enum Samples {
    static let p256dh = (0..<65).map { UInt8($0) }
    static let auth = (100..<116).map { UInt8($0) }

    static var sound: Notification.Sound { Notification.Sound(name: "ping.caf", critical: true, volume: 0.25) }

    static var liveActivity: Notification.LiveActivity {
        var activity = Notification.LiveActivity(event: .end)
        activity.contentStateJSON = #"{"score":3}"#
        activity.attributesType = "MatchAttributes"
        activity.attributesJSON = #"{"match":7}"#
        activity.timestamp = UnixMilliseconds(1_700_000_000_001)
        activity.staleAt = UnixMilliseconds(1_700_000_000_002)
        activity.dismissAt = UnixMilliseconds(0)
        activity.inputPushToken = true
        activity.inputPushChannel = "dHN0LXNyY2gtY2hubA=="
        activity.activityID = "match-8"
        return activity
    }

    static var variant: Notification.LocaleVariant {
        var variant = Notification.LocaleVariant(locale: "pt-BR")
        variant.title = "Olá"
        variant.subtitle = "sub"
        variant.body = "corpo"
        variant.image = "https://example.org/pt.png"
        variant.clickAction = "https://example.org/pt"
        return variant
    }

    static var notification: Notification {
        var notification = Notification()
        notification.kind = .liveActivity
        notification.title = "Title ☃"
        notification.subtitle = "Subtitle"
        notification.body = "Body 🦅"
        notification.titleLocKey = "TITLE"
        notification.titleLocArgs = ["one", ""]
        notification.subtitleLocKey = "SUBTITLE"
        notification.subtitleLocArgs = ["two"]
        notification.bodyLocKey = "BODY"
        notification.bodyLocArgs = ["three", "four"]
        notification.launchImage = "launch"
        notification.image = "https://example.org/i.png"
        notification.sound = Self.sound
        notification.badge = .increment(2)
        notification.category = "category"
        notification.threadID = "thread"
        notification.channelID = "channel"
        notification.tag = "tag"
        notification.clickAction = "https://example.org/"
        notification.color = "#aabbcc"
        notification.data = ["order": "17", "é": "accent"]
        notification.priority = .low
        notification.expiry = .ttl(milliseconds: 60_000)
        notification.collapseKey = "collapse"
        notification.contentAvailable = true
        notification.mutableContent = true
        notification.interruptionLevel = .critical
        notification.relevanceScore = 0.5
        notification.targetContentID = "window"
        notification.filterCriteria = "focus"
        notification.liveActivity = Self.liveActivity
        notification.variants = [Self.variant, Notification.LocaleVariant(locale: "fr")]
        notification.apnsJSON = #"{"aps":{}}"#
        notification.androidJSON = #"{"ttl":"1s"}"#
        notification.webpushJSON = #"{"a":1}"#
        notification.androidStyle = .data
        notification.fcmAPNsStyle = .data
        notification.fcmWebpushStyle = .data
        notification.analyticsLabel = "label"
        notification.fcmAPNsJSON = #"{"headers":{}}"#
        return notification
    }

    static var address: Address {
        var address = Address(provider: .webpush, token: "https://push.example.org/1")
        address.environment = .sandbox
        address.kind = .voip
        address.webpushP256DH = Self.p256dh
        address.webpushAuth = Self.auth
        address.locale = "de-AT"
        return address
    }

    /// A browser's address with the key that it subscribed with.
    static var boundAddress: Address {
        var address = Self.address
        address.applicationServerKey = Self.p256dh
        return address
    }

    /// One of each audience.
    static var targets: [Target] {
        [
            .addresses([Self.address, Address(provider: .apns, token: "00ff")]),
            .devices(["device-1", "device-2"]),
            .users(["user-1"]),
            .topic("news"),
            .condition("'a' in topics && !('b' in topics)"),
            .expression("platform == 'ios' && locale in ['en', 'fr']"),
            .everyone([]),
            .everyone([.apns, .webpush]),
            .fcmTopic("news"),
            .fcmCondition("'a' in topics"),
            .fcmGroup("APA91bkey"),
            .apnsChannel(id: "dHN0LXNyY2gtY2hubA==", environment: .sandbox, storesLatest: true),
        ]
    }

    static var sendCommand: SendCommand {
        var command = SendCommand(app: "shop", target: Self.targets[0], notification: Self.notification)
        command.id = "send-1"
        command.idempotencyKey = "key-1"
        command.publishedAtNanoseconds = 1_700_000_000_123_456_789
        command.notBefore = UnixMilliseconds(1_700_000_100_000)
        command.replyTo = "apus:receipts:shop"
        command.receiptLevel = .recipients
        command.ratePerSecond = 500
        command.delivery = .atMostOnce
        command.dryRun = true
        command.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        command.tracestate = "rojo=00f067aa0ba902b7"
        return command
    }

    /// One of each kind of recipients.
    static var recipients: [WorkUnit.Recipients] {
        [
            .segments([
                Segment(partition: 7, chunk: 3, ordinals: [0, 1, 255, 256, 4_095]),
                Segment(partition: 8, chunk: 0, ordinals: [17]),
            ]),
            .references([
                DeviceReference(partition: 1, ordinal: 70_000, generation: 3),
                DeviceReference(partition: 0, ordinal: 0, generation: 0),
            ]),
            .addresses([0, 5, 999]),
        ]
    }

    static var workUnit: WorkUnit {
        var unit = WorkUnit(
            send: SendKey(app: "shop", id: "send-1"),
            route: RouteNumber(3),
            recipients: Self.recipients[0]
        )
        unit.lane = .express
        unit.attempt = 2
        unit.expiresAt = UnixMilliseconds(1_700_000_200_000)
        unit.publishedAtNanoseconds = 1_700_000_000_123_456_789
        unit.firstAttemptAt = UnixMilliseconds(1_700_000_000_500)
        unit.epoch = 4
        return unit
    }

    static var verdict: TokenVerdict {
        TokenVerdict(
            place: .device(DeviceReference(partition: 5, ordinal: 6, generation: 7)),
            tokenDigest: 0xfedc_ba98_7654_3210,
            asOf: UnixMilliseconds(1_700_000_000_700),
            reason: .unregistered,
            providerReason: "Unregistered",
        )
    }

    static var recipientOutcome: RecipientOutcome {
        var outcome = RecipientOutcome(
            place: .address(0),
            outcome: .rejected,
            reason: .payload,
            at: UnixMilliseconds(1_700_000_000_800),
        )
        outcome.providerReason = "PayloadTooLarge"
        outcome.providerID = "0f0e0d0c-0000-8000-8000-000000000001"
        (outcome.provider, outcome.environment) = (.fcm, .sandbox)
        return outcome
    }

    static var counts: [OutcomeCount] {
        [
            OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 490),
            OutcomeCount(provider: .fcm, outcome: .failed, reason: .retriesExhausted, count: .max),
        ]
    }

    static var outcomeBatch: OutcomeBatch {
        var batch = OutcomeBatch(send: "send-1", app: "shop", route: RouteNumber(3), provider: .apns)
        batch.environment = .sandbox
        batch.unit = "1700000000000-0"
        batch.sequence = 9
        batch.counts = Self.counts
        batch.unregistered = [Self.verdict]
        var suspect = Self.verdict
        suspect.reason = .badToken
        suspect.place = .address(999)
        batch.suspects = [suspect, Self.verdict]
        var refusal = Self.verdict
        refusal.reason = .payload
        batch.refusals = [refusal, Self.verdict]
        batch.recipients = [Self.recipientOutcome]
        batch.firstAt = UnixMilliseconds(1_700_000_000_600)
        batch.lastAt = UnixMilliseconds(1_700_000_000_900)
        batch.isFinal = true
        batch.replyTo = "apus:receipts:shop"
        batch.receiptLevel = .recipients
        batch.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        batch.tracestate = "rojo=00f067aa0ba902b7"
        batch.planned = 500
        batch.publishedAtNanoseconds = 1_700_000_000_123_456_789
        batch.idUse = 0x1234_5678
        return batch
    }

    static var attributes: Attributes {
        var attributes = Attributes()
        attributes.locale = "en-GB"
        attributes.timeZone = "Europe/London"
        attributes.appVersion = "3.2.1"
        attributes.country = "GB"
        attributes.tags = ["beta", "vip"]
        return attributes
    }

    static var deviceRecord: DeviceRecord {
        var record = DeviceRecord(device: "6f0f2b44-7a0a-4b53-9a51-0b7c1c7c2f10", token: (0..<32).map { UInt8($0) })
        record.environment = .sandbox
        record.tokenKind = .installation
        record.user = "user-1"
        record.topics = [1, 127, 128, 70_000, .max]
        record.attributes = Self.attributes
        record.seenAtHours = 472_222
        record.webpushP256DH = Self.p256dh
        record.webpushAuth = Self.auth
        record.applicationServerKey = Self.p256dh
        record.expiresAtSeconds = 1_800_000_000
        record.suspicion = DeviceRecord.Suspicion(since: UnixMilliseconds(1_700_000_000_000), reason: .badToken)
        var voip = DeviceRecord.SecondaryAddress(kind: .voip, token: [0, 1, 2])
        voip.expiresAtSeconds = 1_700_000_000
        var activity = DeviceRecord.SecondaryAddress(kind: .liveActivityUpdate, token: [0xff])
        activity.activityID = "match-7"
        activity.isSuspect = true
        activity.registeredAt = UnixMilliseconds(1_700_000_000_001)
        activity.isOfOtherEnvironment = true
        record.secondary = [voip, activity]
        return record
    }

    static var deviceRegistration: DeviceRegistration {
        var registration = DeviceRegistration(
            device: "device-1",
            provider: .webpush,
            token: "https://push.example.org/1"
        )
        registration.environment = .sandbox
        registration.tokenKind = .widgets
        registration.user = "user-1"
        registration.attributes = Self.attributes
        registration.topics = ["news", "/topics/sport"]
        registration.webpushP256DH = Self.p256dh
        registration.webpushAuth = Self.auth
        registration.applicationServerKey = Self.p256dh
        registration.expiresAt = UnixMilliseconds(1_800_000_000_000)
        registration.badge = 300
        return registration
    }
}
