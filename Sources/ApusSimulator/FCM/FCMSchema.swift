internal import ApusCore

/// The forms of values in FCM's messages.
indirect enum FCMShape: Sendable {
    case text
    case boolean
    case int32
    /// A number from 0 to 1.
    case fraction
    /// A duration such as "3.5s", at most `secondsMax`.
    case duration(secondsMax: Int64)
    case timestamp
    case color
    case analyticsLabel
    case secureLink
    case choice([String])
    case list(FCMShape)
    case textMap
    case freeObject
    case message([String: FCMShape])
}

/// Describes FCM's message, field by field, in snake case.
///
/// Source: https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages, with the later fields of the Admin
/// SDKs.
enum FCMSchema {
    /// The maximum time to live: four weeks.
    static let ttlSecondsMax: Int64 = 2_419_200
    /// The maximum duration of protobuf: ten thousand years.
    static let durationSecondsMax: Int64 = 315_576_000_000

    static let request = FCMShape.message(["validate_only": .boolean, "message": Self.message])

    static let message = FCMShape.message([
        "token": .text, "fid": .text, "topic": .text, "condition": .text,
        "data": .textMap,
        "notification": .message(["title": .text, "body": .text, "image": .text]),
        "fcm_options": Self.options,
        "android": Self.android,
        "webpush": .message([
            "headers": .textMap, "data": .textMap, "notification": .freeObject,
            "fcm_options": .message(["link": .secureLink, "analytics_label": .analyticsLabel]),
        ]),
        "apns": .message([
            "live_activity_token": .text, "headers": .textMap, "payload": .freeObject,
            "fcm_options": .message(["analytics_label": .analyticsLabel, "image": .text]),
        ]),
    ])

    private static let options = FCMShape.message(["analytics_label": .analyticsLabel])

    private static let android = FCMShape.message([
        "collapse_key": .text,
        "priority": .choice(["NORMAL", "HIGH", "normal", "high"]),
        "ttl": .duration(secondsMax: Self.ttlSecondsMax),
        "restricted_package_name": .text,
        "data": .textMap,
        "direct_boot_ok": .boolean, "bandwidth_constrained_ok": .boolean, "restricted_satellite_ok": .boolean,
        "fcm_options": Self.options,
        "notification": Self.androidNotification,
    ])

    private static let androidNotification = FCMShape.message([
        "title": .text, "body": .text, "icon": .text, "color": .color, "sound": .text, "tag": .text,
        "click_action": .text, "image": .text,
        "body_loc_key": .text, "body_loc_args": .list(.text),
        "title_loc_key": .text, "title_loc_args": .list(.text),
        "channel_id": .text, "ticker": .text, "sticky": .boolean, "event_time": .timestamp, "local_only": .boolean,
        "notification_priority": .choice([
            "PRIORITY_UNSPECIFIED", "PRIORITY_MIN", "PRIORITY_LOW", "PRIORITY_DEFAULT", "PRIORITY_HIGH", "PRIORITY_MAX",
        ]),
        "default_sound": .boolean, "default_vibrate_timings": .boolean, "default_light_settings": .boolean,
        "vibrate_timings": .list(.duration(secondsMax: Self.durationSecondsMax)),
        "visibility": .choice(["VISIBILITY_UNSPECIFIED", "PRIVATE", "PUBLIC", "SECRET"]),
        "notification_count": .int32,
        "light_settings": .message([
            "color": .message(["red": .fraction, "green": .fraction, "blue": .fraction, "alpha": .fraction]),
            "light_on_duration": .duration(secondsMax: Self.durationSecondsMax),
            "light_off_duration": .duration(secondsMax: Self.durationSecondsMax),
        ]),
        "proxy": .choice(["PROXY_UNSPECIFIED", "ALLOW", "DENY", "IF_PRIORITY_LOWERED"]),
        "bypass_proxy_notification": .boolean,
    ])

    /// Returns true for a whole number of 32 bits, as a number or a text (https://protobuf.dev/programming-guides/json/).
    private static func isInt32(_ value: JSONValue) -> Bool {
        let number = value.double ?? value.string.flatMap(Double.init)
        return number.flatMap(Int32.init(exactly:)) != nil
    }

    /// Checks a value; `path` is its place.
    static func check(_ value: JSONValue, _ shape: FCMShape, at path: String) throws(FCMViolation) {
        // In protobuf's JSON null means that the field is absent.
        guard !value.isNull else { return }
        switch shape {
        case .text: try Self.demand(value.string != nil, value, "TYPE_STRING", path)
        case .boolean: try Self.demand(value.bool != nil, value, "TYPE_BOOL", path)
        case .int32: try Self.demand(Self.isInt32(value), value, "TYPE_INT32", path)
        case .fraction:
            try Self.demand(value.double.map { (0...1).contains($0) } ?? false, value, "TYPE_FLOAT", path)
        case .duration(let secondsMax):
            let fits = value.string.map { Self.isDuration($0, secondsMax: secondsMax) } ?? false
            try Self.demand(fits, value, "type.googleapis.com/google.protobuf.Duration", path)
        case .timestamp:
            try Self.demand(
                value.string.map(Self.isTimestamp) ?? false,
                value,
                "type.googleapis.com/google.protobuf.Timestamp",
                path,
            )
        case .color: try Self.demand(value.string.map(Self.isColor) ?? false, value, "#RRGGBB", path)
        case .analyticsLabel: try Self.demand(value.string.map(Self.isLabel) ?? false, value, "a label", path)
        case .secureLink:
            try Self.demand(value.string?.hasPrefix("https://") ?? false, value, "an https link", path)
        case .choice(let names):
            try Self.demand(value.string.map(names.contains) ?? false, value, "TYPE_ENUM", path)
        case .list(let element):
            try Self.demand(value.array != nil, value, "a list", path)
            for (index, item) in (value.array ?? []).enumerated() {
                try Self.check(item, element, at: "\(path)[\(index)]")
            }
        case .textMap: try Self.checkTextMap(value, at: path)
        case .freeObject: try Self.demand(value.object != nil, value, "an object", path)
        case .message(let fields): try Self.checkMessage(value, fields, at: path)
        }
    }

    private static func demand(
        _ fits: Bool,
        _ value: JSONValue,
        _ type: String,
        _ path: String,
    ) throws(FCMViolation) {
        guard !fits else { return }
        throw FCMViolation(field: path, description: "Invalid value at '\(path)' (\(type)), \(value.text.prefix(80))")
    }

    private static func checkTextMap(_ value: JSONValue, at path: String) throws(FCMViolation) {
        try Self.demand(value.object != nil, value, "a map", path)
        for (index, member) in (value.object?.members ?? []).enumerated() {
            try Self.demand(member.value.string != nil, member.value, "TYPE_STRING", "\(path)[\(index)].value")
        }
    }

    private static func checkMessage(
        _ value: JSONValue,
        _ fields: [String: FCMShape],
        at path: String,
    ) throws(FCMViolation) {
        try Self.demand(value.object != nil, value, "an object", path)
        var seen: Set<String> = []
        for member in value.object?.members ?? [] {
            let name = Self.snakeCase(member.name)
            guard let shape = fields[name] else {
                let place = path.isEmpty ? "" : " at '\(path)'"
                let description =
                    "Invalid JSON payload received. Unknown name \"\(member.name)\"\(place): Cannot find field."
                throw FCMViolation(field: path, description: description)
            }
            guard seen.insert(name).inserted else {
                throw FCMViolation(field: path, description: "\(name) is given twice, in both spellings")
            }
            try Self.check(member.value, shape, at: path.isEmpty ? name : "\(path).\(name)")
        }
    }

    /// Converts "titleLocKey" to "title_loc_key": protobuf's JSON accepts both.
    static func snakeCase(_ name: String) -> String {
        guard name.utf8.contains(where: { (0x41...0x5a).contains($0) }), !name.utf8.contains(0x5f) else { return name }
        var snake = ""
        for character in name {
            if character.isUppercase { snake += "_" }
            snake += character.lowercased()
        }
        return snake
    }

    /// Returns the member of a snake-case name, in either spelling; an explicit null counts as absent.
    static func member(_ name: String, of value: JSONValue?) -> JSONValue? {
        value?.object?.members.first { Self.snakeCase($0.name) == name && !$0.value.isNull }?.value
    }
}

extension FCMSchema {
    /// Returns true for `[a-zA-Z0-9-_.~%]{1,900}`.
    static func isTopic(_ text: String) -> Bool {
        (1...Limits.topicNameBytesMax).contains(text.utf8.count) && text.utf8.allSatisfy(Self.isNameByte)
    }

    /// Returns true for `[a-zA-Z0-9-_.~%]{1,50}`.
    static func isLabel(_ text: String) -> Bool {
        (1...50).contains(text.utf8.count) && text.utf8.allSatisfy(Self.isNameByte)
    }

    private static func isNameByte(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x61...0x7a, 0x41...0x5a, 0x30...0x39, 0x2d, 0x5f, 0x2e, 0x7e, 0x25: true
        default: false
        }
    }

    static func isColor(_ text: String) -> Bool {
        text.utf8.count == 7 && text.hasPrefix("#") && Hexadecimal.decode(text.dropFirst()) != nil
    }

    /// Returns true for digits, optionally a point and at most nine digits, then "s"; 0 to `secondsMax`.
    static func isDuration(_ text: String, secondsMax: Int64) -> Bool {
        guard text.hasSuffix("s") else { return false }
        let parts = text.dropLast().split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        guard let whole = parts.first, let seconds = Self.digits(whole, countMax: 18) else { return false }
        guard parts.count == 2 else { return seconds <= secondsMax }
        guard let fraction = Self.digits(parts[1], countMax: 9) else { return false }
        return seconds < secondsMax || (seconds == secondsMax && fraction == 0)
    }

    /// Returns true for RFC 3339: "2026-11-21T03:45:00.123Z", or with an offset.
    static func isTimestamp(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        let form = Array("0000-00-00T00:00:00".utf8)
        guard bytes.count > form.count else { return false }
        for (byte, expected) in zip(bytes, form) {
            guard expected == 0x30 ? (0x30...0x39).contains(byte) : byte == expected else { return false }
        }
        var rest = text.dropFirst(form.count)
        if rest.first == "." {
            let fraction = rest.dropFirst().prefix { $0.isASCII && $0.isNumber }
            guard (1...9).contains(fraction.count) else { return false }
            rest = rest.dropFirst(fraction.count + 1)
        }
        if rest == "Z" { return true }
        guard rest.utf8.count == 6, rest.first == "+" || rest.first == "-" else { return false }
        let parts = rest.dropFirst().split(separator: ":")
        return parts.count == 2 && parts.allSatisfy { $0.utf8.count == 2 && Self.digits($0, countMax: 2) != nil }
    }

    private static func digits(_ text: Substring, countMax: Int) -> Int64? {
        guard (1...countMax).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return Int64(text)
    }
}
