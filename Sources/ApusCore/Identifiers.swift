/// A name that was refused, with the rule that it breaks.
public struct IdentifierError: Error, Equatable, CustomStringConvertible {
    /// The kind of name: "app", "device", "topic".
    public let kind: String
    /// The rule that was broken.
    public let rule: String

    /// Creates an error.
    public init(kind: String, rule: String) {
        self.kind = kind
        self.rule = rule
    }

    /// The sentence for a log line or an answer. The refused text itself is not repeated: it may be hostile.
    public var description: String { "not a valid \(self.kind): must be \(self.rule)" }
}

/// The name of an app: `[a-z0-9-]{1,32}`.
///
/// It stands in Redis keys behind the hash tag; the narrow alphabet prevents injection of another tag.
public struct AppID: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The name.
    public let text: String

    /// Checks and wraps a text.
    public init(_ text: String) throws(IdentifierError) {
        self.text = try checkedName(text, kind: "app", bytesMax: Limits.appIDBytesMax)
    }

    /// The name.
    public var description: String { self.text }

    /// Orders names alphabetically.
    public static func < (one: AppID, other: AppID) -> Bool { one.text < other.text }
}

/// The name of a publisher that has mailboxes of its own. It is the name of its user in Redis, too.
public struct PublisherName: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The name.
    public let text: String

    /// Checks and wraps a text: 1 to 64 characters a-z, 0-9 and -, which are safe as a part of a key, of a pattern of keys, and of the
    /// variable of a setting.
    public init(_ text: String) throws(IdentifierError) {
        self.text = try checkedName(text, kind: "publisher", bytesMax: Limits.publisherNameBytesMax)
    }

    /// The name.
    public var description: String { self.text }

    /// Orders names alphabetically.
    public static func < (one: PublisherName, other: PublisherName) -> Bool { one.text < other.text }
}

/// The id of a device, chosen by the app (a UUID, usually).
public struct DeviceID: Hashable, Sendable, CustomStringConvertible {
    /// The id.
    public let text: String

    /// Checks and wraps a text: 1 to 128 printable ASCII characters without spaces.
    public init(_ text: String) throws(IdentifierError) {
        self.text = try checkedPrintable(text, kind: "device id", bytesMax: Limits.deviceIDBytesMax)
    }

    /// The id.
    public var description: String { self.text }
}

/// The id of a user, chosen by the app's backend.
public struct UserID: Hashable, Sendable, CustomStringConvertible {
    /// The id.
    public let text: String

    /// Checks and wraps a text: 1 to 128 printable ASCII characters without spaces.
    public init(_ text: String) throws(IdentifierError) {
        self.text = try checkedPrintable(text, kind: "user id", bytesMax: Limits.userIDBytesMax)
    }

    /// The id.
    public var description: String { self.text }
}

/// The id of a send: the publisher's, or one created at intake.
public struct SendID: Hashable, Sendable, CustomStringConvertible {
    /// The id.
    public let text: String

    /// Checks and wraps a text: 1 to 64 of `[A-Za-z0-9._:-]`, since it stands in Redis keys.
    public init(_ text: String) throws(IdentifierError) {
        let valid = text.utf8.allSatisfy { byte in
            isAlphanumeric(byte) || byte == 0x2e || byte == 0x5f || byte == 0x2d || byte == 0x3a
        }
        guard valid, (1...Limits.sendIDBytesMax).contains(text.utf8.count) else {
            throw IdentifierError(
                kind: "send id",
                rule: "1 to \(Limits.sendIDBytesMax) of the characters A-Z, a-z, 0-9, '.', '_', ':' and '-'",
            )
        }
        self.text = text
    }

    /// The id.
    public var description: String { self.text }
}

/// The name of a topic: `[a-zA-Z0-9-_.~%]{1,900}`.
///
/// Source: https://firebase.google.com/docs/cloud-messaging/manage-topics
public struct TopicName: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The name, without a "/topics/" before it.
    public let text: String

    /// Checks and wraps a text; a leading "/topics/" is removed.
    public init(_ text: String) throws(IdentifierError) {
        let name = text.hasPrefix("/topics/") ? String(text.dropFirst(8)) : text
        let valid = name.utf8.allSatisfy { byte in
            isAlphanumeric(byte) || byte == 0x2d || byte == 0x5f || byte == 0x2e || byte == 0x7e || byte == 0x25
        }
        guard valid, (1...Limits.topicNameBytesMax).contains(name.utf8.count) else {
            throw IdentifierError(
                kind: "topic",
                rule: "1 to \(Limits.topicNameBytesMax) of the characters a-z, A-Z, 0-9, '-', '_', '.', '~' and '%'",
            )
        }
        self.text = name
    }

    /// The name.
    public var description: String { self.text }

    /// Orders names alphabetically.
    public static func < (one: TopicName, other: TopicName) -> Bool { one.text < other.text }
}

private func isAlphanumeric(_ byte: UInt8) -> Bool {
    (0x61...0x7a).contains(byte) || (0x41...0x5a).contains(byte) || (0x30...0x39).contains(byte)
}

private func checkedName(
    _ text: String,
    kind: String,
    bytesMax: Int,
) throws(IdentifierError) -> String {
    let valid = text.utf8.allSatisfy { byte in
        (0x61...0x7a).contains(byte) || (0x30...0x39).contains(byte) || byte == 0x2d
    }
    guard valid, (1...bytesMax).contains(text.utf8.count) else {
        throw IdentifierError(kind: kind, rule: "1 to \(bytesMax) of the characters a-z, 0-9 and -")
    }
    return text
}

private func checkedPrintable(
    _ text: String,
    kind: String,
    bytesMax: Int,
) throws(IdentifierError) -> String {
    let valid = text.utf8.allSatisfy { (0x21...0x7e).contains($0) }
    guard valid, (1...bytesMax).contains(text.utf8.count) else {
        throw IdentifierError(
            kind: kind,
            rule: "1 to \(bytesMax) printable ASCII characters without spaces",
        )
    }
    return text
}

/// The permissions of the holder of an app's API key.
public enum APIKeyRole: String, CaseIterable, Hashable, Sendable {
    /// The holder may register and change devices.
    case register
    /// The holder may send.
    case publish
    /// The holder may do everything.
    case admin

    /// True when the holder may register and change devices.
    public var mayRegister: Bool { self != .publish }
    /// True when the holder may send.
    public var mayPublish: Bool { self != .register }
}
