internal import ApusCore
internal import ApusMessages

/// Reads a notification in the form of gorush's `POST /api/push`. It is pure.
///
/// Members that gorush does not know are ignored, as gorush does.
///
/// Source: https://github.com/appleboy/gorush#request-body
struct GorushNotification {
    /// The platforms of gorush.
    enum Platform: Int64, CaseIterable {
        case ios = 1
        case android = 2
        case huawei = 3

        /// The name in logs.
        var name: String {
            switch self {
            case .ios: "ios"
            case .android: "android"
            case .huawei: "huawei"
            }
        }

        /// The provider; nil for one that we do not send to.
        var provider: Provider? {
            switch self {
            case .ios: .apns
            case .android: .fcm
            case .huawei: nil
            }
        }
    }

    /// The publisher's id, which the log repeats.
    var id = ""
    /// The platform; nil when it is missing or another number.
    var platform: Platform?
    /// The tokens, also that of `to`.
    var tokens: [String] = []
    /// FCM's topic. Apple's is the app's, which the configuration names: one that is given is counted, and not looked at.
    var topic = ""
    /// FCM's condition over topics.
    var condition = ""
    /// The environment of the tokens.
    var environment = ProviderEnvironment.production
    /// The text that gorush's log shows.
    var message = ""
    /// The notification.
    var notification = Notification()

    /// The number that gorush counts: the tokens, and one for any topic, but not for a condition.
    var count: Int { self.tokens.count + (self.topic.isEmpty ? 0 : 1) }
    /// True when FCM holds the audience.
    var hasTopic: Bool { self.platform == .android && !(self.topic.isEmpty && self.condition.isEmpty) }

    /// Reads a notification.
    init(_ reader: inout MemberReader) {
        self.id = reader.text("notif_id") ?? ""
        let number = reader.value("platform")?.int64
        self.platform = number.flatMap { Platform(rawValue: $0) }
        if self.platform == nil { reader.note("platform", "must be 1 for iOS or 2 for Android") }
        self.tokens = reader.texts("tokens") ?? []
        if let to = reader.text("to"), !to.isEmpty {
            if to.hasPrefix("/topics/") {
                self.topic = String(to.dropFirst("/topics/".count))
            } else {
                self.tokens.append(to)
            }
        }
        if let topic = reader.text("topic"), !topic.isEmpty { self.topic = topic }
        self.condition = reader.text("condition") ?? ""
        self.message = reader.text("message") ?? ""
        let isProduction = reader.truth("production") ?? false
        if reader.truth("development") ?? false, !isProduction { self.environment = .sandbox }
        self.readWords(&reader)
        self.readData(&reader)
        self.readDelivery(&reader)
        if self.platform == .ios { self.readKind(&reader) }
    }

    // MARK: Parts

    private mutating func readWords(_ reader: inout MemberReader) {
        var notification = Notification()
        notification.title = reader.text("title") ?? ""
        notification.body = self.message
        notification.image = reader.text("image") ?? ""
        if self.platform == .ios {
            // Its texts count more than those beside it.
            reader.members("alert", isOpen: true) { inner in
                notification.title = Self.text(inner.text("title"), else: notification.title)
                notification.body = Self.text(inner.text("body"), else: notification.body)
                notification.subtitle = inner.text("subtitle") ?? ""
                notification.titleLocKey = inner.text("title-loc-key") ?? ""
                notification.titleLocArgs = inner.texts("title-loc-args") ?? []
                notification.bodyLocKey = inner.text("loc-key") ?? ""
                notification.bodyLocArgs = inner.texts("loc-args") ?? []
                notification.launchImage = inner.text("launch-image") ?? ""
            }
        } else {
            // The object of FCM's own form; members beside it count more.
            reader.members("notification", isOpen: true) { inner in
                notification.title = Self.text(notification.title, else: inner.text("title"))
                notification.body = Self.text(notification.body, else: inner.text("body"))
                notification.image = Self.text(notification.image, else: inner.text("image"))
                notification.channelID = inner.text("android_channel_id") ?? ""
                notification.tag = inner.text("tag") ?? ""
                notification.color = inner.text("color") ?? ""
                notification.clickAction = inner.text("click_action") ?? ""
            }
        }
        notification.category = reader.text("category") ?? ""
        notification.threadID = reader.text("thread-id") ?? ""
        notification.sound = self.sound(&reader)
        notification.badge = reader.number("badge").map { .set($0) }
        notification.contentAvailable = reader.truth("content_available") ?? false
        notification.mutableContent = reader.truth("mutable_content") ?? false
        notification.relevanceScore = reader.double("relevance-score")
        let levels: [String: Notification.InterruptionLevel] = [
            "passive": .passive, "active": .active, "time-sensitive": .timeSensitive, "critical": .critical,
        ]
        if let level = reader.text("interruption_level"), !level.isEmpty {
            notification.interruptionLevel = levels[level]
            if levels[level] == nil {
                reader.note("interruption_level", "must be one of \(levels.keys.sorted().joined(separator: ", "))")
            }
        }
        self.notification = notification
    }

    /// Returns the first of two texts that is not empty; an empty one when there is none.
    private static func text(_ first: String?, else second: String?) -> String {
        if let first, !first.isEmpty { return first }
        return second ?? ""
    }

    /// Reads the sound. Beside `name` or `volume`, which are for iPhones and make it one of a critical alert, `sound` does not count.
    private func sound(_ reader: inout MemberReader) -> Notification.Sound? {
        if self.platform == .ios {
            let (name, volume) = (reader.text("name") ?? "", reader.double("volume") ?? 0)
            if !name.isEmpty || volume > 0 {
                return Self.sound(name, isCritical: true, volume: volume > 0 ? volume : 1)
            }
        }
        guard let value = reader.value("sound") else { return nil }
        if let name = value.string { return name.isEmpty ? nil : Notification.Sound(name: name) }
        return reader.members("sound", isOpen: true) { inner in
            let isCritical = (inner.value("critical")?.int64 ?? 0) != 0
            return Self.sound(inner.text("name") ?? "", isCritical: isCritical, volume: inner.double("volume"))
        }
    }

    /// Returns a sound, the app's default without a name. A volume is from 0 to 1, and for critical alerts only.
    private static func sound(_ name: String, isCritical: Bool, volume: Double?) -> Notification.Sound {
        Notification.Sound(
            name: name.isEmpty ? "default" : name,
            critical: isCritical,
            volume: isCritical ? volume.map { min(max($0, 0), 1) } : nil,
        )
    }

    /// Reads the data: at Apple it lies beside `aps` as it is, at Google every value is a text.
    private mutating func readData(_ reader: inout MemberReader) {
        var foreign = JSONObject()
        for member in (reader.object("data") ?? [:]).members {
            if let text = member.value.string {
                self.notification.data[member.name] = text
            } else if self.platform == .ios {
                foreign[member.name] = member.value
            } else {
                self.notification.data[member.name] = member.value.text
            }
        }
        if !foreign.isEmpty { self.notification.apnsJSON = JSONValue.object(foreign).text }
        guard self.platform == .android else { return }
        self.notification.androidJSON = reader.jsonText("android") ?? ""
        self.notification.webpushJSON = reader.jsonText("webpush") ?? ""
        self.notification.fcmAPNsJSON = reader.jsonText("apns") ?? ""
        reader.members("fcm_options", isOpen: true) { inner in
            self.notification.analyticsLabel = inner.text("analytics_label") ?? ""
        }
        let isShown = !self.notification.title.isEmpty || !self.notification.body.isEmpty
        if !isShown, !self.notification.data.isEmpty { self.passDataAlone() }
    }

    /// Gives the data to the app on every platform that has no JSON of its own. An iPhone is woken silently, unless its icon or sound is to change.
    private mutating func passDataAlone() {
        self.notification.androidStyle = .data
        if self.notification.webpushJSON.isEmpty { self.notification.fcmWebpushStyle = .data }
        let isSilent = self.notification.badge == nil && self.notification.sound == nil
        if isSilent, self.notification.fcmAPNsJSON.isEmpty { self.notification.fcmAPNsStyle = .data }
    }

    private mutating func readDelivery(_ reader: inout MemberReader) {
        switch reader.text("priority") {
        case nil, ""?: break
        case "high"?: self.notification.priority = .high
        case "normal"?: self.notification.priority = .normal
        case .some: reader.note("priority", "must be high or normal")
        }
        self.notification.collapseKey = reader.text("collapse_id") ?? ""
        // gorush tells Apple of no expiration that does not lie after 1970, such as 0: Apple then keeps the notification.
        if let seconds = reader.value("expiration")?.int64, seconds > 0 {
            guard seconds <= Limits.timeMax.value / 1_000 else {
                reader.note("expiration", "must be a time in seconds since 1970")
                return
            }
            self.notification.expiry = .at(UnixMilliseconds(seconds: seconds))
        }
    }

    /// Reads what kind of push an iPhone gets: an alert, unless the notification says otherwise or can only wake the app.
    private mutating func readKind(_ reader: inout MemberReader) {
        let kinds: [String: Notification.Kind] = [
            "alert": .alert, "background": .background, "voip": .voip, "complication": .complication,
            "fileprovider": .fileProvider, "mdm": .mdm, "location": .location, "liveactivity": .liveActivity,
            "pushtotalk": .pushToTalk,
        ]
        let type = reader.text("push_type") ?? ""
        if let kind = kinds[type] {
            self.notification.kind = kind
        } else if !type.isEmpty {
            reader.note("push_type", "must be one of \(kinds.keys.sorted().joined(separator: ", "))")
        }
        self.readActivity(&reader)
        let isAlert = self.notification.kind == .alert && type.isEmpty
        if isAlert, self.notification.contentAvailable, !self.isShown { self.notification = self.silent }
        // A background push has one priority, which is its own.
        if self.notification.kind == .background { self.notification.priority = nil }
    }

    /// True when an iPhone shows something: a text, a number on the icon, a sound.
    private var isShown: Bool {
        let notification = self.notification
        let texts = [
            notification.title, notification.subtitle, notification.body, notification.titleLocKey,
            notification.bodyLocKey,
        ]
        return texts.contains { !$0.isEmpty } || notification.badge != nil || notification.sound != nil
    }

    /// The notification as one that wakes the app, which carries data and no member of what is shown.
    private var silent: Notification {
        var silent = Notification()
        silent.kind = .background
        silent.data = self.notification.data
        silent.apnsJSON = self.notification.apnsJSON
        silent.expiry = self.notification.expiry
        silent.collapseKey = self.notification.collapseKey
        return silent
    }

    private mutating func readActivity(_ reader: inout MemberReader) {
        guard let event = reader.text("event"), !event.isEmpty else { return }
        let events: [String: Notification.LiveActivity.Event] = ["start": .start, "update": .update, "end": .end]
        guard let known = events[event] else { return reader.note("event", "must be start, update or end") }
        var activity = Notification.LiveActivity(event: known)
        activity.contentStateJSON = reader.jsonText("content-state") ?? ""
        activity.attributesType = reader.text("attributes-type") ?? ""
        activity.attributesJSON = reader.jsonText("attributes") ?? ""
        func time(_ name: String) -> UnixMilliseconds? {
            guard let seconds = reader.value(name)?.int64, (1...Limits.timeMax.value / 1_000).contains(seconds) else {
                return nil
            }
            return UnixMilliseconds(seconds: seconds)
        }
        activity.timestamp = time("timestamp")
        activity.staleAt = time("stale-date")
        activity.dismissAt = time("dismissal-date")
        self.notification.liveActivity = activity
        self.notification.kind = .liveActivity
        // It changes what the screen shows, and wakes no app.
        self.notification.contentAvailable = false
    }

    // MARK: Commands

    /// The maximum of tokens of one command, so that it fits into a message.
    static let tokensPerCommandMax = 500

    /// Returns the commands of the notification, without ids.
    func commands(for app: AppID) -> [SendCommand] {
        guard let provider = self.platform?.provider else { return [] }
        var targets: [Target] = []
        for start in stride(from: 0, to: self.tokens.count, by: Self.tokensPerCommandMax) {
            let part = self.tokens[start..<min(start + Self.tokensPerCommandMax, self.tokens.count)]
            targets.append(
                .addresses(
                    part.map { token in
                        var address = Address(provider: provider, token: token)
                        address.environment = self.environment
                        address.kind = self.notification.tokenKind
                        return address
                    }
                )
            )
        }
        if self.hasTopic { targets.append(self.topic.isEmpty ? .fcmCondition(self.condition) : .fcmTopic(self.topic)) }
        return targets.map { SendCommand(app: app.text, target: $0, notification: self.notification) }
    }

    /// Returns the tokens that one of these commands goes to; an empty one for a topic of FCM.
    static func tokens(of command: SendCommand) -> [String] {
        guard case .addresses(let addresses) = command.target else { return [""] }
        return addresses.map(\.token)
    }
}
