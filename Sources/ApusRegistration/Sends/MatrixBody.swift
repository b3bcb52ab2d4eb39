internal import ApusCore
internal import ApusMessages

/// Reads the body of a Matrix homeserver's notification. It is pure. Members that the specification does not name are ignored, and so are
/// those of another JSON type than it says, except for the devices and their ids; what is longer or deeper than it may be is clipped. Anybody
/// in a room may send such events, and its members are to be told of the others.
///
/// Source: https://spec.matrix.org/latest/push-gateway-api/#post_matrixpushv1notify
struct MatrixBody {
    /// One device of a notification.
    struct Device {
        /// The id by which the homeserver names the app.
        var app = ""
        /// The token of the device.
        var pushKey = ""
        /// The sound that the user's rules ask for.
        var sound: String?
        /// True when nothing but ids and counts may be sent.
        var isByIDOnly = false
        /// The members that the app wants in each payload, as the text of an object: parsed values take far more memory. Empty for none.
        var defaultPayload = ""

        /// The same device, to which nothing but ids and counts may be sent.
        var byIDOnly: Device { Device(app: self.app, pushKey: self.pushKey, isByIDOnly: true) }
    }

    /// The maximum of devices in a notification.
    static let devicesMax = 100

    /// The event; empty for an update of counts.
    var eventID = ""
    var roomID = ""
    var type = ""
    var sender = ""
    var senderName = ""
    var roomName = ""
    var isUserTarget = false
    var isUrgent = true
    /// The event's text, and what kind of text it is.
    var text: String?
    var textType: String?
    var unread: UInt32?
    var missedCalls: UInt32?
    var devices: [Device] = []

    /// Reads a body.
    ///
    /// - Throws: what is wrong with it.
    init(_ bytes: [UInt8]) throws(ProblemDetails) {
        let object = try RegistrationBody.object(Self.flattened(bytes), bytesMax: APILimits.matrixBytesMax)
        var reader = MemberReader(object, isOpen: true)
        if !reader.has("notification") { reader.note("notification", "must be given") }
        self = reader.members("notification", isOpen: true) { inner in MatrixBody(&inner) }
        try reader.check()
    }

    /// Returns a JSON text with `null` in place of each array and object that is nested deeper than a text from outside may have them.
    private static func flattened(_ bytes: [UInt8]) -> [UInt8] {
        var flat: [UInt8] = []
        flat.reserveCapacity(bytes.count)
        var (depth, isInString, isEscaped) = (0, false, false)
        for byte in bytes {
            let isKept = depth <= Limits.jsonDepthMax
            switch byte {
            case _ where isInString:
                isInString = isEscaped || byte != UInt8(ascii: "\"")
                isEscaped = !isEscaped && byte == UInt8(ascii: "\\")
            case UInt8(ascii: "\""): isInString = true
            case UInt8(ascii: "["), UInt8(ascii: "{"):
                depth += 1
                if depth == Limits.jsonDepthMax + 1 { flat += "null".utf8 }
            case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
            default: break
            }
            if isKept, depth <= Limits.jsonDepthMax { flat.append(byte) }
        }
        return flat
    }

    private init(_ reader: inout MemberReader) {
        reader.ignoringMistakes { self.readEvent(&$0) }
        if !reader.has("devices") { reader.note("devices", "must be given") }
        self.devices = reader.elements("devices", countMax: Self.devicesMax, isOpen: true) { inner in
            var device = Device()
            for name in ["app_id", "pushkey"] where !inner.has(name) { inner.note(name, "must be given") }
            device.app = inner.text("app_id") ?? ""
            device.pushKey = inner.text("pushkey") ?? ""
            inner.ignoringMistakes { optional in
                optional.members("data", isOpen: true) { data in
                    device.isByIDOnly = data.text("format") == "event_id_only"
                    let payload = data.object("default_payload") ?? [:]
                    device.defaultPayload = payload.isEmpty ? "" : JSONValue.object(payload).text
                }
                device.sound = optional.members("tweaks", isOpen: true) { Self.name("sound", &$0) }
            }
            return device.defaultPayload.utf8.count <= Limits.jsonOverrideBytesMax ? device : device.byIDOnly
        }
    }

    /// Reads what says something about the event. Whoever sends it, on any server, may choose the type of such a member.
    private mutating func readEvent(_ reader: inout MemberReader) {
        self.eventID = reader.text("event_id") ?? ""
        self.roomID = Self.name("room_id", &reader) ?? ""
        self.type = Self.name("type", &reader) ?? ""
        self.sender = Self.name("sender", &reader) ?? ""
        self.senderName = Self.name("sender_display_name", &reader) ?? ""
        let roomAlias = Self.name("room_alias", &reader)
        self.roomName = Self.name("room_name", &reader) ?? roomAlias ?? ""
        self.isUserTarget = reader.truth("user_is_target") ?? false
        self.isUrgent = reader.text("prio") != "low"
        (self.text, self.textType) = reader.members("content", isOpen: true) { inner in
            (inner.text("body")?.clipped(toBytes: Self.bodyBytesMax), Self.name("msgtype", &inner))
        }
        (self.unread, self.missedCalls) = reader.members("counts", isOpen: true) { inner in
            (inner.number("unread"), inner.number("missed_calls"))
        }
    }

    /// Reads an id or a name, of which the beginning is enough.
    private static func name(_ name: String, _ reader: inout MemberReader) -> String? {
        reader.text(name)?.clipped(toBytes: Limits.nameBytesMax)
    }

    /// The number on the app's icon; nil when the homeserver counts nothing.
    var badge: UInt32? {
        guard self.unread != nil || self.missedCalls != nil else { return nil }
        let (sum, overflows) = (self.unread ?? 0).addingReportingOverflow(self.missedCalls ?? 0)
        return overflows ? Limits.badgeMax : min(sum, Limits.badgeMax)
    }

    /// Returns the notification for a device: an alert, or where that has nothing to show, data that wakes the app.
    func notification(for device: Device, at provider: Provider) -> Notification {
        let alert = self.alert(for: device, at: provider)
        guard !Self.isShown(alert, at: provider) else { return alert }
        var silent = Notification()
        silent.kind = .background
        silent.priority = .normal
        silent.data = alert.data
        if provider == .apns {
            var payload = Self.object(alert.apnsJSON)
            payload["aps"] = nil
            if !payload.isEmpty { silent.apnsJSON = JSONValue.object(payload).text }
        }
        // With the priority that Apple demands of data, a sleeping phone of Google's would go on sleeping.
        if provider == .fcm, self.isUrgent { silent.androidJSON = #"{"priority":"HIGH"}"# }
        return silent
    }

    /// Returns true when an alert shows something at a provider. Browsers show nothing without a title.
    private static func isShown(_ alert: Notification, at provider: Provider) -> Bool {
        guard alert.title.isEmpty, provider != .webpush else { return !alert.title.isEmpty }
        let aps = Self.object(alert.apnsJSON)["aps"]
        return !alert.body.isEmpty || alert.badge != nil || alert.sound != nil
            || ["alert", "badge", "sound"].contains { aps?[$0]?.isNull == false }
    }

    private func alert(for device: Device, at provider: Provider) -> Notification {
        var notification = Notification()
        notification.priority = self.isUrgent ? .high : .normal
        notification.badge = self.badge.map { .set($0) }
        for (name, value) in self.data(for: device) { notification.data[name] = value }
        if provider == .fcm { notification.androidStyle = .data }
        if !device.isByIDOnly, !self.eventID.isEmpty {
            let name = self.senderName.isEmpty ? self.sender : self.senderName
            notification.title = self.roomName.isEmpty ? name : self.roomName
            let text = self.text ?? ""
            notification.body = text.isEmpty || self.roomName.isEmpty ? text : "\(name): \(text)"
            notification.body = notification.body.clipped(toBytes: Self.bodyBytesMax)
            notification.threadID = self.roomID
        }
        if !self.eventID.isEmpty, let sound = device.sound, !sound.isEmpty {
            notification.sound = Notification.Sound(name: sound)
        }
        if provider == .apns {
            notification.apnsJSON = device.defaultPayload
            if notification.title.isEmpty, !self.eventID.isEmpty { notification.mutableContent = true }
        } else {
            for member in Self.object(device.defaultPayload).members
            where notification.data[member.name] == nil && !Self.isReserved(member.name) {
                notification.data[member.name] = member.value.string ?? member.value.text
            }
        }
        return notification
    }

    /// Returns true for a member of a payload that is no data: `aps` is for Apple's own route, and FCM reserves the others.
    private static func isReserved(_ name: String) -> Bool {
        ["aps", "from", "message_type"].contains(name) || name.hasPrefix("google") || name.hasPrefix("gcm")
    }

    /// Returns the object of a text; an empty one for any other text.
    private static func object(_ text: String) -> JSONObject {
        (try? JSONValue(parsing: text, bytesMax: Limits.jsonOverrideBytesMax))?.object ?? [:]
    }

    /// The maximum of bytes of a body, so that it fits into each provider's payload.
    private static let bodyBytesMax = 1_024

    /// Returns what the app gets beside the text.
    private func data(for device: Device) -> [String: String] {
        var data: [String: String] = [:]
        let ids = [("event_id", self.eventID.clipped(toBytes: Limits.nameBytesMax)), ("room_id", self.roomID)]
        let others = [
            ("type", self.type), ("sender", self.sender), ("sender_display_name", self.senderName),
            ("room_name", self.roomName), ("prio", self.isUrgent ? "high" : "low"),
        ]
        for (name, value) in ids + (device.isByIDOnly ? [] : others) where !value.isEmpty { data[name] = value }
        if let unread { data["unread"] = "\(unread)" }
        if let missedCalls { data["missed_calls"] = "\(missedCalls)" }
        if !device.isByIDOnly, self.isUserTarget { data["user_is_target"] = "true" }
        guard !device.isByIDOnly else { return data }
        data["content_body"] = self.text
        data["content_msgtype"] = self.textType
        return data
    }
}
