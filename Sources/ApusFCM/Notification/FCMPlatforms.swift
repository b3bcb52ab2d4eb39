internal import ApusAPNs
internal import ApusCore
internal import ApusMessages
internal import ApusProviders

/// Builds the parts of an FCM message for one notification in one language.
struct FCMPlatforms {
    private let notification: Notification
    private let context: RenderContext
    /// True when FCM shows the same texts on every platform; then they stand once, in the message's own `notification`.
    let isShared: Bool

    init(_ notification: Notification, context: RenderContext) {
        self.notification = notification
        self.context = context
        self.isShared =
            notification.kind == .alert
            && [notification.androidStyle, notification.fcmAPNsStyle, notification.fcmWebpushStyle]
                .allSatisfy { $0 == .notification }
    }

    /// The member `notification`; nil unless the texts are shared.
    var shared: JSONObject? {
        guard self.isShared else { return nil }
        let texts = self.texts
        return texts.isEmpty ? nil : texts
    }

    private var texts: JSONObject {
        var texts: JSONObject = [:]
        Self.add(self.notification.title, as: "title", to: &texts)
        Self.add(self.notification.body, as: "body", to: &texts)
        Self.add(self.notification.image, as: "image", to: &texts)
        return texts
    }

    /// The member `data`: the publisher's data for the app, and the send's id.
    var data: JSONObject {
        var data: JSONObject = [:]
        for (key, value) in self.notification.data.sorted(by: { $0.key < $1.key }) { data[key] = .string(value) }
        data[RenderContext.sendDataKey] = .string(self.context.send.text)
        return data
    }

    /// The member `android`.
    var android: JSONObject {
        var android: JSONObject = [:]
        Self.add(self.notification.collapseKey, as: "collapse_key", to: &android)
        android["priority"] = self.isUrgent ? "HIGH" : "NORMAL"
        if let ttl = self.timeToLive { android["ttl"] = .string(ttl) }
        switch (self.notification.kind, self.notification.androidStyle) {
        case (.background, _): break
        case (.alert, .notification):
            if self.isShown(override: self.notification.androidJSON) {
                android["notification"] = .object(self.androidNotification)
            }
        default: android["data"] = .object(self.dataWithTexts)
        }
        return android
    }

    /// Returns true when FCM has something to show: a `notification` without texts, with a badge or a sound alone, is
    /// an empty box on the screen. Texts may still come with the publisher's own JSON.
    private func isShown(override: String) -> Bool { APNsPayload.hasAlert(self.notification) || !override.isEmpty }

    private var isUrgent: Bool {
        switch self.notification.priority {
        case .high: true
        case .normal, .low: false
        case nil: self.notification.kind != .background
        }
    }

    private var androidNotification: JSONObject {
        var shown = self.isShared ? [:] : self.texts
        Self.add(self.notification.titleLocKey, self.notification.titleLocArgs, as: "title_loc", to: &shown)
        Self.add(self.notification.bodyLocKey, self.notification.bodyLocArgs, as: "body_loc", to: &shown)
        Self.add(self.notification.color, as: "color", to: &shown)
        Self.add(self.notification.sound?.name ?? "", as: "sound", to: &shown)
        Self.add(self.notification.displayTag(of: self.context.send) ?? "", as: "tag", to: &shown)
        Self.add(self.androidClickAction, as: "click_action", to: &shown)
        Self.add(self.notification.channelID, as: "channel_id", to: &shown)
        switch self.notification.badge {
        // FCM takes 0 for an absent count, and adds one to the app's number.
        // https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages#androidnotification
        case .set(0): break
        case .set(let number): shown["notification_count"] = .integer(number)
        // The device's badge is written here at sending; until then the longest number stands for it.
        case .increment: shown["notification_count"] = .integer(Limits.badgeMax)
        case nil: break
        }
        return shown
    }

    /// The click action for Android. A link is for browsers: no Android activity would answer to it, and the tap would do nothing.
    private var androidClickAction: String {
        FieldRules.isHTTPS(self.notification.clickAction) ? "" : self.notification.clickAction
    }

    /// The texts as data, for an app that draws by itself. The publisher's own data takes precedence under the same key.
    private var dataWithTexts: JSONObject {
        var data = self.texts
        Self.add(self.notification.subtitle, as: "subtitle", to: &data)
        for (name, key, arguments) in [
            ("title_loc", self.notification.titleLocKey, self.notification.titleLocArgs),
            ("subtitle_loc", self.notification.subtitleLocKey, self.notification.subtitleLocArgs),
            ("body_loc", self.notification.bodyLocKey, self.notification.bodyLocArgs),
        ] where !key.isEmpty {
            data["\(name)_key"] = .string(key)
            // Data values are strings: the list travels as JSON text.
            if !arguments.isEmpty {
                data["\(name)_args"] = .string(JSONValue.array(arguments.map { .string($0) }).text)
            }
        }
        Self.add(self.notification.sound?.name ?? "", as: "sound", to: &data)
        Self.add(self.notification.displayTag(of: self.context.send) ?? "", as: "tag", to: &data)
        Self.add(self.notification.clickAction, as: "click_action", to: &data)
        Self.add(self.notification.channelID, as: "channel_id", to: &data)
        Self.add(self.notification.color, as: "color", to: &data)
        Self.add(self.notification.category, as: "category", to: &data)
        Self.add(self.notification.threadID, as: "thread_id", to: &data)
        switch self.notification.badge {
        case .set(let number): data["badge"] = .string(String(number))
        // The device's badge is written here at sending; until then the longest number stands for it.
        case .increment: data["badge"] = .string(String(Limits.badgeMax))
        case nil: break
        }
        for entry in self.data.members { data[entry.name] = entry.value }
        return data
    }

    /// Returns the member `apns`; nil for a call, which Apple accepts only at a PushKit token.
    ///
    /// - Parameters:
    ///   - override: merged into the payload.
    ///   - block: merged into the whole member, last. When it holds a Live Activity's token, the headers are those of a Live Activity.
    func apns(override: JSONObject?, block: JSONObject?) throws(Problem) -> JSONObject? {
        guard self.notification.kind != .voip else { return nil }
        let isActivity = block?["live_activity_token"]?.isNull == false
        let isData = self.notification.kind != .background && self.notification.fcmAPNsStyle == .data
        let isSilent =
            !isActivity
            && (self.notification.kind == .background || isData
                || self.hasNothingToShow && override == nil && block == nil)
        var payload: JSONObject
        if isSilent {
            payload = ["aps": ["content-available": 1]]
            if isData {
                for entry in self.dataWithTexts.members { payload[entry.name] = entry.value }
            }
        } else {
            let aps = try APNsPayload.aps(
                self.notification,
                dueAt: self.context.dueAt,
                withAlert: !self.isShared || self.needsOwnAlert || override != nil || block?["payload"] != nil,
            )
            payload = aps.isEmpty ? [:] : ["aps": .object(aps)]
        }
        if var override {
            // Data is a background push here: texts in aps are for Apple's own route alone, unless fcm_apns_json holds them.
            if isSilent, self.notification.kind != .background { override["aps"] = nil }
            var merged = JSONValue.object(payload)
            merged.merge(.object(override))
            payload = merged.object ?? payload
            // A block can change the result, which is checked after the merge.
            if self.notification.kind == .background, block == nil, !self.context.isAccepted {
                try APNsFinishedPayload.checkSilent(payload["aps"]?.object ?? [:])
            }
        }
        let headers = self.apnsHeaders(isActivity ? .liveactivity : isSilent ? .background : .alert)
        var apns: JSONObject = ["headers": .object(headers)]
        if !payload.isEmpty { apns["payload"] = .object(payload) }
        if !isSilent, !self.isShared, !self.notification.image.isEmpty {
            apns["fcm_options"] = ["image": .string(self.notification.image)]
        }
        guard let block else { return apns }
        var merged = JSONValue.object(apns)
        merged.merge(.object(block))
        apns = merged.object ?? apns
        try FCMAPNsRules.checkFinished(apns, isSilent: isSilent)
        return apns
    }

    /// True when Apple would be asked to alert with nothing: the message is data alone, and the app is woken for it.
    private var hasNothingToShow: Bool {
        !APNsPayload.hasAlert(self.notification) && self.notification.badge == nil && self.notification.sound == nil
            && self.notification.image.isEmpty
    }

    /// True when Apple's alert holds more than title and body.
    private var needsOwnAlert: Bool {
        !self.notification.subtitle.isEmpty || !self.notification.titleLocKey.isEmpty
            || !self.notification.subtitleLocKey.isEmpty || !self.notification.bodyLocKey.isEmpty
            || !self.notification.launchImage.isEmpty
    }

    private func apnsHeaders(_ pushType: APNsPushType) -> JSONObject {
        let isSilent = pushType == .background
        // Messages to iOS with data alone must use priority 5.
        let priority =
            isSilent ? APNsPriority.consideringDevicePower : self.notification.priority.map { APNsPriority($0) }
        var headers: JSONObject = [
            "apns-push-type": .string(pushType.rawValue),
            "apns-priority": .string(String((priority ?? .immediately).rawValue)),
        ]
        if let expiry = self.notification.expiry {
            let deadline = expiry.deadline(publishedAt: self.context.publishedAt).advanced(byMilliseconds: 999).seconds
            headers["apns-expiration"] = .string(expiry.isOneAttempt ? "0" : String(deadline))
        }
        if let collapseID = self.notification.collapseID(of: self.context.send),
            pushType == .alert || !self.notification.collapseKey.isEmpty
        {
            headers["apns-collapse-id"] = .string(collapseID)
        }
        return headers
    }

    /// The member `webpush`; nil for a call.
    var webpush: JSONObject? {
        guard self.notification.kind != .voip else { return nil }
        var headers: JSONObject = [:]
        if let seconds = self.secondsLeft { headers["TTL"] = .string(String(seconds)) }
        headers["Urgency"] = .string(self.urgency)
        var webpush: JSONObject = ["headers": .object(headers)]
        guard self.notification.kind == .alert else { return webpush }
        guard self.notification.fcmWebpushStyle == .notification else {
            webpush["data"] = .object(self.dataWithTexts)
            return webpush
        }
        var shown = self.isShared ? [:] : self.texts
        Self.add(self.notification.displayTag(of: self.context.send) ?? "", as: "tag", to: &shown)
        if self.isShown(override: self.notification.webpushJSON), !shown.isEmpty {
            webpush["notification"] = .object(shown)
        }
        if FieldRules.isHTTPS(self.notification.clickAction) {
            webpush["fcm_options"] = ["link": .string(self.notification.clickAction)]
        }
        return webpush
    }

    private var urgency: String {
        switch self.notification.priority {
        case .high: "high"
        case .normal: "normal"
        case .low: "low"
        case nil: self.notification.kind == .background ? "normal" : "high"
        }
    }

    /// The milliseconds until the message expires, within FCM's storage limit.
    private var millisecondsLeft: Int64? {
        guard let expiry = self.notification.effectiveExpiry else { return nil }
        let left = expiry.deadline(publishedAt: self.context.publishedAt).milliseconds(since: self.context.now)
        return min(max(0, left), FCMRules.timeToLiveMillisecondsMax)
    }

    private var secondsLeft: Int64? { self.millisecondsLeft.map { ($0 + 999) / 1_000 } }

    /// The time to live in FCM's form, such as "3.5s".
    private var timeToLive: String? {
        guard let milliseconds = self.millisecondsLeft else { return nil }
        let fraction = milliseconds % 1_000
        guard fraction > 0 else { return "\(milliseconds / 1_000)s" }
        let digits = String(repeating: "0", count: 3 - String(fraction).count) + String(fraction)
        return "\(milliseconds / 1_000).\(digits)s"
    }

    private static func add(_ text: String, as name: String, to object: inout JSONObject) {
        if !text.isEmpty { object[name] = .string(text) }
    }

    private static func add(_ key: String, _ arguments: [String], as name: String, to object: inout JSONObject) {
        guard !key.isEmpty else { return }
        object["\(name)_key"] = .string(key)
        if !arguments.isEmpty { object["\(name)_args"] = .array(arguments.map { .string($0) }) }
    }
}
