internal import ApusCore
internal import ApusMessages
internal import ApusService
internal import ApusStore

/// Shows a device to its app: everything but the token, of which only a digest is shown (`RedactedToken`).
struct DeviceDocument {
    let device: StoredDevice
    /// The names of its topics.
    let topics: [String]
    /// The badge of the device.
    let badge: UInt32

    /// Returns a strong validator of the document in that format (RFC 9110 §8.8.1): the record's, followed by the badge.
    func etag(as type: MediaType) -> String { EntityTags.tag(of: self.device, badge: self.badge, as: type) }

    /// Returns the document in that format.
    func bytes(as type: MediaType) throws(MessageError) -> [UInt8] {
        switch type {
        case .protobuf: try self.message.encode()
        case .json, .mergePatch, .ndjson: self.json
        }
    }

    private var json: [UInt8] {
        let record = self.device.record
        var text: [UInt8] = []
        text.reserveCapacity(512)
        text += "{\"device\":".utf8
        JSONWriter.append(string: record.device, to: &text)
        text += ",\"provider\":\"\(self.device.realm.provider.name)\"".utf8
        text += ",\"environment\":\"\(self.device.realm.environment.name)\"".utf8
        text += ",\"token\":\"\(self.token)\",\"token_kind\":\"\(record.tokenKind.name)\"".utf8
        if record.user.isEmpty {
            text += ",\"user\":null".utf8
        } else {
            text += ",\"user\":".utf8
            JSONWriter.append(string: record.user, to: &text)
        }
        text += ",\"attributes\":{".utf8
        let attributes = record.attributes
        var isFirst = true
        for (name, value) in [
            ("locale", attributes.locale), ("time_zone", attributes.timeZone), ("app_version", attributes.appVersion),
            ("country", attributes.country),
        ] where !value.isEmpty {
            text += (isFirst ? "\"\(name)\":" : ",\"\(name)\":").utf8
            JSONWriter.append(string: value, to: &text)
            isFirst = false
        }
        if !attributes.tags.isEmpty {
            text += (isFirst ? "\"tags\":" : ",\"tags\":").utf8
            Self.append(attributes.tags, to: &text)
        }
        text += "},\"topics\":".utf8
        Self.append(self.topics, to: &text)
        if let displaced = self.device.displaced {
            text += ",\"displaced_device\":".utf8
            JSONWriter.append(string: displaced, to: &text)
        }
        if !record.secondary.isEmpty { self.appendActivities(to: &text) }
        text += ",\"badge\":\(self.badge)".utf8
        text += ",\"registered_at_ms\":\(self.device.registeredAt)".utf8
        text += ",\"seen_at_ms\":\(Int64(record.seenAtHours) * 3_600_000)}\n".utf8
        return text
    }

    private func appendActivities(to text: inout [UInt8]) {
        text += ",\"activities\":[".utf8
        for (index, address) in self.device.record.secondary.enumerated() {
            text += (index > 0 ? ",{\"activity\":" : "{\"activity\":").utf8
            JSONWriter.append(string: address.activityID, to: &text)
            text += ",\"kind\":\"\(address.kind.name)\"".utf8
            text += ",\"expires_at_ms\":\(UnixMilliseconds(seconds: address.expiresAtSeconds))}".utf8
        }
        text.append(UInt8(ascii: "]"))
    }

    private var message: DeviceRegistration {
        let record = self.device.record
        var message = DeviceRegistration(
            device: record.device,
            provider: self.device.realm.provider,
            token: self.token.description,
        )
        message.environment = self.device.realm.environment
        message.tokenKind = record.tokenKind
        message.user = record.user
        message.attributes = record.attributes
        message.topics = self.topics
        message.badge = self.badge
        return message
    }

    private var token: RedactedToken {
        let token = self.device.record.token
        return RedactedToken(
            self.device.realm.provider.traits.token.text(of: token)
        )
    }

    private static func append(_ texts: [String], to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "["))
        for (index, text) in texts.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            JSONWriter.append(string: text, to: &bytes)
        }
        bytes.append(UInt8(ascii: "]"))
    }
}
