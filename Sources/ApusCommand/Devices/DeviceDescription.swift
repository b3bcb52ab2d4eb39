package import ApusCore
internal import ApusMessages
internal import ApusService
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
    ///   - showsToken: true to show the token; otherwise its digest appears as in logs and in the HTTP API: enough to compare, useless to a
    ///     thief.
    package init(_ device: StoredDevice, topics: [String], showsToken: Bool) {
        self.device = device
        self.topics = topics.sorted()
        self.showsToken = showsToken
    }

    private var token: String {
        let token = self.device.realm.provider.traits.token.text(of: self.device.record.token)
        return self.showsToken ? token : "\(RedactedToken(token))"
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
            "record": .string("partition \(self.device.reference.partition), number \(self.device.reference.ordinal)"),
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
        let record = self.device.record
        var members: [(name: String, value: String)] = self.json.members.compactMap { member in
            switch member.value {
            case .string(let text): (member.name, text)
            case .array(let elements): (member.name, elements.compactMap(\.string).joined(separator: " "))
            default: nil
            }
        }
        members.append(("registered", self.device.registeredAt.timestamp))
        if let suspicion = record.suspicion {
            members.append(("suspect", "since \(suspicion.since.timestamp): \(suspicion.reason.name)"))
        }
        return members.filter { !$0.value.isEmpty }.map { name, value in
            name + String(repeating: " ", count: max(1, 18 - name.count)) + value
        }
    }
}
