package import ApusCore
package import ApusMessages
package import ApusStore

/// Holds a device as a line of an export: what `…/devices:import` reads, and besides what that ignores (the tokens of Live Activities).
/// Suspicions against a token are left out, because a registration ends them.
package struct DeviceLine: Sendable {
    /// The device.
    package let registration: DeviceRegistration
    /// The time of registration; nil when the line has none.
    package let registeredAt: UnixMilliseconds?
    /// The time of the last log-in, log-out or other dated change after the registration; nil: there was none.
    package let changedAt: UnixMilliseconds?
    /// The further tokens.
    package let addresses: [DeviceRecord.SecondaryAddress]

    /// Reads a line, without its end.
    ///
    /// - Parameter hosts: the hosts whose Web Push endpoints are accepted.
    package init(parsing bytes: [UInt8], hosts: EndpointHosts) throws(InvalidJSON) {
        do throws(ProblemDetails) {
            let (registration, exported) = try RegistrationBody.read(line: bytes, hosts: hosts, Self.readExported)
            self.registration = registration
            (self.registeredAt, self.changedAt, self.addresses) = exported
        } catch {
            throw InvalidJSON(error)
        }
    }

    /// Reads the members that a line of an export has besides those of a registration.
    static func readExported(
        _ reader: inout MemberReader
    ) -> (registeredAt: UnixMilliseconds?, changedAt: UnixMilliseconds?, addresses: [DeviceRecord.SecondaryAddress]) {
        let (registeredAt, changedAt) = (reader.time("registered_at_ms"), reader.time("changed_at_ms"))
        let addresses = reader.elements("activities") { reader in
            for name in ["kind", "token"] where !reader.has(name) { reader.note(name, "must be given") }
            let kind = reader.word("kind", TokenKind.allCases, \.name)
            let token = reader.text("token").flatMap { Hexadecimal.decode($0) }
            if token?.isEmpty ?? true { reader.note("token", "must be hexadecimal") }
            var address = DeviceRecord.SecondaryAddress(kind: kind ?? .device, token: token ?? [])
            address.activityID = reader.text("activity") ?? ""
            address.expiresAtSeconds = reader.time("expires_at_ms")?.seconds ?? 0
            address.registeredAt = reader.time("registered_at_ms") ?? UnixMilliseconds(0)
            return address
        }
        return (registeredAt, changedAt, addresses)
    }

    /// Writes a device as a line.
    package static func append(_ exported: ExportedDevice, to text: inout [UInt8]) {
        let (device, record) = (exported.device, exported.device.record)
        var line = JSONObject()
        line["device"] = .string(record.device)
        line["provider"] = .string(device.realm.provider.name)
        line["environment"] = .string(device.realm.environment.name)
        line["token"] = .string(device.realm.provider.traits.token.text(of: record.token))
        line["token_kind"] = .string(record.tokenKind.name)
        if !record.user.isEmpty { line["user"] = .string(record.user) }
        line["topics"] = .array(exported.topics.map { .string($0) })
        line["attributes"] = .object(Self.members(record.attributes))
        if !record.webpushP256DH.isEmpty { line["webpush_p256dh"] = .string(Base64URL.encode(record.webpushP256DH)) }
        if !record.webpushAuth.isEmpty { line["webpush_auth"] = .string(Base64URL.encode(record.webpushAuth)) }
        if !record.applicationServerKey.isEmpty {
            line["application_server_key"] = .string(Base64URL.encode(record.applicationServerKey))
        }
        if record.expiresAtSeconds > 0 {
            line["expires_at_ms"] = .integer(UnixMilliseconds(seconds: record.expiresAtSeconds).value)
        }
        if let badge = exported.badge { line["badge"] = .integer(badge) }
        line["registered_at_ms"] = .integer(device.registeredAt.value)
        if device.changedAt > device.registeredAt { line["changed_at_ms"] = .integer(device.changedAt.value) }
        if !record.secondary.isEmpty {
            line["activities"] = .array(
                record.secondary.map { address in
                    var object: JSONObject = [
                        "activity": .string(address.activityID), "kind": .string(address.kind.name),
                        "token": .string(Hexadecimal.encode(address.token)),
                    ]
                    let end = UnixMilliseconds(seconds: address.expiresAtSeconds).value
                    for (name, time) in [("expires_at_ms", end), ("registered_at_ms", address.registeredAt.value)]
                    where time > 0 { object[name] = .integer(time) }
                    return .object(object)
                }
            )
        }
        text += JSONValue.object(line).text.utf8
        text.append(UInt8(ascii: "\n"))
    }

    private static func members(_ attributes: Attributes) -> JSONObject {
        var members = JSONObject()
        for (name, value) in [
            ("locale", attributes.locale), ("time_zone", attributes.timeZone), ("app_version", attributes.appVersion),
            ("country", attributes.country),
        ] where !value.isEmpty { members[name] = .string(value) }
        if !attributes.tags.isEmpty { members["tags"] = .array(attributes.tags.map { .string($0) }) }
        return members
    }
}
