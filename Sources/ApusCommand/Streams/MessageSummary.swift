package import ApusCore
internal import ApusMessages
package import ApusStreams

/// Shows a packed message as readable fields; absent fields are omitted.
package struct MessageSummary: Hashable, Sendable {
    /// The message as JSON.
    package let value: JSONValue

    /// Creates the summary of a message; nil when it cannot be read.
    package init?(_ message: DeadMessage) {
        switch message {
        case .command(let command): self.value = Self.outline(command) ?? [:]
        case .unit(let unit): self.value = Self.outline(unit) ?? [:]
        case .plan(let send): self.value = ["app": .string(send.app), "send": .string(send.id)]
        case .outcomes(let batch): self.value = Self.outline(batch) ?? [:]
        case .registration(let command): self.value = Self.outline(command) ?? [:]
        case .event(let event): self.value = Self.outline(event) ?? [:]
        case .receipt(let receipt): self.value = Self.outline(receipt) ?? [:]
        case .unreadable: return nil
        }
    }

    /// The message as indented lines, one for each value.
    package var lines: [String] { Self.lines(self.value, name: nil) }

    private static func lines(_ value: JSONValue, name: String?) -> [String] {
        let parts: [(String?, JSONValue)]
        switch value {
        case .object(let object): parts = object.members.map { ($0.name, $0.value) }
        case .array(let elements): parts = elements.map { ("-", $0) }
        case .string(let text): return [(name.map { "\($0) " } ?? "") + text]
        case .null, .bool, .number:
            return [(name.map { "\($0) " } ?? "") + value.text + (Self.time(value, name).map { " (\($0))" } ?? "")]
        }
        let inner = parts.flatMap { Self.lines($0.1, name: $0.0) }
        guard let name else { return inner }
        return [name] + inner.map { "  \($0)" }
    }

    /// Returns the time that a value is, by the unit in its name; nil when it is none.
    private static func time(_ value: JSONValue, _ name: String?) -> String? {
        guard let name, let number = value.int64, number >= 1_000_000_000_000 else { return nil }
        if name.hasSuffix("at_ns") { return UnixMilliseconds(number / 1_000_000).timestamp }
        return name.hasSuffix("_ms") ? UnixMilliseconds(number).timestamp : nil
    }

    /// Returns the outline of a value; nil for an empty one.
    private static func outline(_ value: Any) -> JSONValue? {
        switch value {
        case let bytes as [UInt8]: return bytes.isEmpty ? nil : .string(Hexadecimal.encode(bytes))
        case let text as String: return text.isEmpty ? nil : .string(text)
        case let flag as Bool: return flag ? true : nil
        case let number as any FixedWidthInteger:
            let whole = Int64(clamping: number)
            return whole == 0 ? nil : .integer(whole)
        case let number as Double: return JSONNumber(number).map { .number($0) }
        case let time as UnixMilliseconds: return .integer(time.value)
        case let pairs as [String: String]:
            guard !pairs.isEmpty else { return nil }
            return .object(
                pairs.sorted { $0.key < $1.key }.reduce(into: JSONObject()) { $0[$1.key] = .string($1.value) }
            )
        default: break
        }
        let mirror = Mirror(reflecting: value)
        switch mirror.displayStyle {
        case .optional: return mirror.children.first.flatMap { Self.outline($0.value) }
        case .collection, .set:
            let elements = mirror.children.compactMap { Self.outline($0.value) }
            return elements.isEmpty ? nil : .array(elements)
        case .enum where mirror.children.isEmpty: return .string(SnakeCase.name(of: value))
        case .struct where value is any CustomStringConvertible: return .string("\(value)")
        default: return Self.outline(of: mirror.children).map { .object($0) }
        }
    }

    private static func outline(of fields: Mirror.Children) -> JSONObject? {
        var object = JSONObject()
        for (index, field) in fields.enumerated() {
            // The protocol has a field for each case.
            switch field.value {
            case Notification.Expiry.at(let time): object["expires_at_ms"] = .integer(time.value)
            case Notification.Expiry.ttl(let milliseconds): object["ttl_ms"] = .integer(milliseconds)
            case Notification.Badge.set(let number): object["badge_set"] = .integer(number)
            case Notification.Badge.increment(let number): object["badge_increment"] = .integer(number)
            default:
                let (name, outline) = (Self.name(field.label, index), Self.outline(field.value))
                if !Self.absent.contains(where: { name.hasSuffix($0.name) && outline == $0.value }) {
                    object[name] = outline
                }
            }
        }
        return object.members.isEmpty ? nil : object
    }

    /// The values that stand for an absent field, by the end of its name.
    private static let absent: [(name: String, value: JSONValue)] = [
        ("kind", "alert"), ("kind", "device"), ("_style", "notification"), ("receipt_level", "summary"),
        ("delivery", "at_least_once"), ("environment", "production"),
    ]

    /// The names in the protocol of fields that have their unit in it, which their Swift names spell out or leave out.
    private static let protocolNames = [
        "publishedAtNanoseconds": "published_at_ns", "notBefore": "not_before_ms",
        "expiresAt": "expires_at_ms", "staleAt": "stale_at_ms", "dismissAt": "dismiss_at_ms",
        "timestamp": "timestamp_ms",
        "firstAttemptAt": "first_attempt_ms", "acceptedAt": "accepted_at_ms", "firstAt": "first_at_ms",
        "lastAt": "last_at_ms", "asOf": "as_of_ms", "at": "at_ms",
    ]

    /// Returns the field's name in the schema: `idempotencyKey` is `idempotency_key`.
    private static func name(_ label: String?, _ index: Int) -> String {
        guard let label, !label.hasPrefix(".") else { return "\(index)" }
        if let name = Self.protocolNames[label] { return name }
        // Every run of capitals is one word, with the s of its plural: `rawURLsJSON` has three.
        let characters = Array(label)
        func isLowercase(_ index: Int) -> Bool { index < characters.count && characters[index].isLowercase }
        var name = ""
        for (index, character) in characters.enumerated() {
            if index > 0, character.isUppercase {
                let isPlural = isLowercase(index + 1) && characters[index + 1] == "s" && !isLowercase(index + 2)
                if isLowercase(index - 1) || isLowercase(index + 1) && !isPlural { name.append("_") }
            }
            name += character.lowercased()
        }
        return name
    }
}
