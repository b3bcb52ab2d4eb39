internal import ApusCore

/// Checks the rules of messages beyond the forms of their fields.
enum FCMMessageRules {
    private static func refusal(_ violation: FCMViolation) -> FCMRefusal {
        FCMRefusal(400, violation.description, violations: [violation])
    }

    private static func violation(_ field: String, _ description: String) -> FCMRefusal {
        Self.refusal(FCMViolation(field: field, description: description))
    }

    static func check(_ body: JSONValue, _ message: JSONValue?) throws(FCMRefusal) {
        do throws(FCMViolation) {
            try FCMSchema.check(body, FCMSchema.request, at: "")
        } catch {
            throw Self.refusal(error)
        }
        guard let message else { throw FCMRefusal(.invalidArgument, "The message is not set.") }
        try Self.checkTarget(message)
        for path in [["data"], ["android", "data"], ["webpush", "data"]] { try Self.checkKeys(message, path) }
        try Self.checkArguments(message)
        try Self.checkSize(message)
    }

    private static func checkTarget(_ message: JSONValue) throws(FCMRefusal) {
        let targets = ["token", "fid", "topic", "condition"].filter { FCMSchema.member($0, of: message) != nil }
        guard let target = targets.first else {
            throw FCMRefusal(.invalidArgument, "Recipient of the message is not set.")
        }
        guard targets.count == 1 else {
            throw Self.violation("message", "oneof field 'target' is already set. Cannot set '\(targets[1])'")
        }
        let text = FCMSchema.member(target, of: message)?.string ?? ""
        switch target {
        case "topic":
            let name = text.hasPrefix("/topics/") ? String(text.dropFirst(8)) : text
            guard FCMSchema.isTopic(name) else { throw Self.violation("message.topic", "Invalid topic name") }
        case "condition":
            guard TopicCondition(text) != nil else {
                throw Self.violation("message.condition", "Invalid condition expression provided.")
            }
        default:
            guard (1...Limits.tokenBytesMax).contains(text.utf8.count), text.utf8.allSatisfy(Self.isTokenByte) else {
                var refusal = FCMRefusal(
                    .invalidArgument,
                    "The registration token is not a valid FCM registration token",
                )
                refusal.violations = [
                    FCMViolation(field: "message.\(target)", description: "Invalid registration token")
                ]
                throw refusal
            }
        }
    }

    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x61...0x7a, 0x41...0x5a, 0x30...0x3a, 0x2d, 0x5f, 0x2e, 0x7e: true
        default: false
        }
    }

    private static func value(_ message: JSONValue, _ path: [String]) -> JSONValue? {
        path.reduce(message as JSONValue?) { FCMSchema.member($1, of: $0) }
    }

    /// Checks for reserved data keys. Google's pages disagree on them; keys that any page names are refused.
    private static func checkKeys(_ message: JSONValue, _ path: [String]) throws(FCMRefusal) {
        for member in Self.value(message, path)?.object?.members ?? [] {
            let key = member.name
            let isReserved =
                ["from", "message_type"].contains(key) || key.hasPrefix("google") || key.hasPrefix("gcm")
            guard !isReserved else {
                let field = (["message"] + path).joined(separator: ".")
                throw Self.violation(field, "Invalid data payload key: \(key)")
            }
        }
    }

    private static func checkArguments(_ message: JSONValue) throws(FCMRefusal) {
        let path = ["android", "notification"]
        for name in ["title", "body"] where Self.value(message, path + ["\(name)_loc_args"])?.array?.isEmpty == false {
            guard Self.value(message, path + ["\(name)_loc_key"]) == nil else { continue }
            throw Self.violation("message.android.notification.\(name)_loc_args", "\(name)_loc_key is missing")
        }
    }

    /// Counts the keys and values of data and notification as each platform receives them; of Apple's block its payload.
    private static func checkSize(_ message: JSONValue) throws(FCMRefusal) {
        let isTopic = FCMSchema.member("topic", of: message) != nil || FCMSchema.member("condition", of: message) != nil
        let bytesMax = isTopic ? FCMValidator.topicMessageBytesMax : FCMValidator.messageBytesMax
        for platform in ["android", "webpush"] {
            let data = Self.value(message, [platform, "data"]) ?? FCMSchema.member("data", of: message)
            let notification =
                Self.value(message, [platform, "notification"]) ?? FCMSchema.member("notification", of: message)
            guard Self.weight(data) + Self.weight(notification) <= bytesMax else {
                throw FCMRefusal(.invalidArgument, "\(platform == "android" ? "Android" : "Web") message is too big")
            }
        }
        guard let payload = Self.value(message, ["apns", "payload"]) else { return }
        guard payload.bytes.count <= APNsPushType.alert.payloadBytesMax else {
            var refusal = FCMRefusal(.invalidArgument, "Request contains an invalid argument.")
            refusal.apns = (APNsRejection.payloadTooLarge.status, APNsRejection.payloadTooLarge.rawValue)
            throw refusal
        }
    }

    /// Returns the bytes of names and values.
    private static func weight(_ value: JSONValue?) -> Int {
        (value?.object?.members ?? []).reduce(0) { sum, member in
            sum + member.name.utf8.count + (member.value.string?.utf8.count ?? member.value.bytes.count)
        }
    }
}
