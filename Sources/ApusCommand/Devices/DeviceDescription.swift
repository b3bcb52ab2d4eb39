package import ApusCore
internal import ApusMessages
package import ApusStore

/// Describes a device for `apus device get`.
package struct DeviceDescription: Hashable, Sendable {
    private let device: StoredDevice
    private let topics: [String]
    private let showsToken: Bool

    /// Creates a description.
    ///
    /// - Parameters:
    ///   - topics: the names of its topics.
    ///   - showsToken: true to show the token; otherwise the first digits of its digest appear: enough to compare, useless to a thief.
    package init(_ device: StoredDevice, topics: [String], showsToken: Bool) {
        self.device = device
        self.topics = topics.sorted()
        self.showsToken = showsToken
    }

    private var token: String {
        let bytes = self.device.record.token
        guard self.showsToken else {
            let digits = String(DeviceToken.digest(bytes), radix: 16)
            return "sha256:" + String(repeating: "0", count: 16 - digits.utf8.count) + digits
        }
        return self.device.realm.provider.traits.token.text(of: bytes)
    }

    /// The description as JSON.
    package var json: JSONObject {
        let attributes = self.device.record.attributes
        var object: JSONObject = [
            "device": .string(self.device.id), "app": .string(self.device.app.text),
            "provider": .string(self.device.realm.provider.name),
            "environment": .string(self.device.realm.environment.name),
            "token": .string(self.token), "user": .string(self.device.record.user),
            "topics": .array(self.topics.map { .string($0) }),
            "locale": .string(attributes.locale), "time_zone": .string(attributes.timeZone),
            "app_version": .string(attributes.appVersion), "country": .string(attributes.country),
            "tags": .array(attributes.tags.map { .string($0) }),
            "registered_at_ms": .integer(self.device.registeredAt.value),
            "place": .string("\(self.device.reference.partition)/\(self.device.reference.ordinal)"),
        ]
        if let suspicion = self.device.record.suspicion {
            object["suspect"] = [
                "since_ms": .integer(suspicion.since.value), "reason": .string(suspicion.reason.name),
            ]
        }
        return object
    }

    /// The description as lines of name and value; empty values are omitted.
    package var lines: [String] {
        self.json.members.compactMap { member in
            let value: String
            switch member.value {
            case .string(let text): value = text
            case .array(let elements): value = elements.compactMap(\.string).joined(separator: " ")
            default: value = member.value.text
            }
            guard !value.isEmpty else { return nil }
            return member.name + String(repeating: " ", count: max(1, 18 - member.name.count)) + value
        }
    }
}
