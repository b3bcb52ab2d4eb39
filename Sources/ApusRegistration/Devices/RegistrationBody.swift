internal import ApusCore
internal import ApusMessages
internal import ApusStore

/// Reads what `PUT …/devices/{device}` brings, in either form. Pure.
enum RegistrationBody {
    /// Reads the bytes of a body.
    ///
    /// - Parameters:
    ///   - device: the path's; the body may repeat it, but not name another.
    ///   - hosts: whose Web Push endpoints are taken.
    static func read(
        _ bytes: [UInt8],
        as type: MediaType,
        device: DeviceID,
        hosts: EndpointHosts,
    ) throws(ProblemDetails) -> DeviceRegistration {
        let registration: DeviceRegistration
        switch type {
        case .protobuf: registration = try Self.protobuf(bytes)
        case .json, .mergePatch, .ndjson:
            registration = try Self.json(try Self.object(bytes), device: device.text, hosts) { _ in }.0
        }
        guard registration.device == device.text else {
            throw .invalid("#/device", "must be the device of the path")
        }
        let breaches = RegistrationRules.breaches(registration, hosts: hosts)
        guard breaches.isEmpty else { throw .invalid(breaches) }
        return registration
    }

    /// Reads a line of an import, which must name the device.
    ///
    /// - Parameter readMore: reads the members that a line has besides those of a registration.
    static func read<More>(
        line bytes: [UInt8],
        hosts: EndpointHosts,
        _ readMore: (inout MemberReader) -> More,
    ) throws(ProblemDetails) -> (DeviceRegistration, More) {
        let object = try Self.object(bytes, bytesMax: APILimits.importLineBytesMax)
        let (registration, more) = try Self.json(object, device: nil, hosts, readMore)
        do throws(IdentifierError) {
            _ = try DeviceID(registration.device)
        } catch {
            throw .invalid("#/device", "must be \(error.rule)")
        }
        let breaches = RegistrationRules.breaches(registration, hosts: hosts)
        guard breaches.isEmpty else { throw .invalid(breaches) }
        return (registration, more)
    }

    /// Returns the JSON object of a body.
    static func object(
        _ bytes: [UInt8],
        bytesMax: Int = APILimits.bodyBytesMax,
    ) throws(ProblemDetails) -> JSONObject {
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue(parsing: bytes, bytesMax: bytesMax)
        } catch {
            throw ProblemDetails(.malformedRequest, "the content is not JSON: \(error)")
        }
        guard let object = value.object else { throw .invalid("#", "must be an object") }
        return object
    }

    /// - Parameter device: when the body need not name it.
    private static func json<More>(
        _ object: JSONObject,
        device: String?,
        _ hosts: EndpointHosts,
        _ readMore: (inout MemberReader) -> More,
    ) throws(ProblemDetails) -> (DeviceRegistration, More) {
        var reader = MemberReader(object)
        if device == nil, !reader.has("device") { reader.note("device", "must be given") }
        let provider = reader.word("provider", Provider.allCases, \.name)
        if provider == nil, !reader.has("provider") { reader.note("provider", "must be given") }
        let subscription = Self.subscription(&reader)
        let token = subscription?.endpoint ?? reader.text("token")
        if token == nil, !reader.has("token"), !reader.has("subscription") { reader.note("token", "must be given") }
        var registration = DeviceRegistration(
            device: reader.text("device") ?? device ?? "",
            provider: provider ?? Provider.allCases[0],
            token: token ?? "",
        )
        if let environment = reader.word("environment", ProviderEnvironment.allCases, \.name) {
            registration.environment = environment
        }
        if let kind = reader.word("token_kind", TokenKind.allCases, \.name) { registration.tokenKind = kind }
        if let user = reader.text("user") { registration.user = user }
        registration.topics = reader.texts("topics")
        registration.badge = reader.number("badge")
        if let subscription {
            registration.webpushP256DH = subscription.p256dh
            registration.webpushAuth = subscription.auth
            registration.expiresAt = subscription.expiresAt
        }
        if let bytes = reader.bytes("webpush_p256dh") { registration.webpushP256DH = bytes }
        if let bytes = reader.bytes("webpush_auth") { registration.webpushAuth = bytes }
        if let bytes = reader.bytes("application_server_key") { registration.applicationServerKey = bytes }
        if let time = reader.time("expires_at_ms") { registration.expiresAt = time }
        registration.attributes = reader.members("attributes") { reader in
            var attributes = Attributes()
            attributes.locale = reader.text("locale") ?? ""
            attributes.timeZone = reader.text("time_zone") ?? ""
            attributes.appVersion = reader.text("app_version") ?? ""
            attributes.country = reader.text("country") ?? ""
            attributes.tags = reader.texts("tags") ?? []
            return attributes
        }
        let more = readMore(&reader)
        let mistakes = reader.finish()
        guard mistakes.isEmpty else {
            // Rules that do not hang on what could not be read are reported at once too.
            let reported = Set(mistakes.map(\.pointer))
            let isReadable = provider != nil && token != nil
            let breaches = isReadable ? RegistrationRules.breaches(registration, hosts: hosts) : []
            throw .invalid(mistakes + breaches.filter { !reported.contains($0.pointer) })
        }
        return (registration, more)
    }

    /// Reads a browser's `PushSubscription` as its `toJSON` gives it (https://w3c.github.io/push-api/#pushsubscription-interface),
    /// instead of the token and the two keys; nil: there is none. Browsers may add members to it.
    private static func subscription(
        _ reader: inout MemberReader
    ) -> (endpoint: String?, p256dh: [UInt8], auth: [UInt8], expiresAt: UnixMilliseconds?)? {
        guard reader.object("subscription") != nil else { return nil }
        for name in ["token", "webpush_p256dh", "webpush_auth", "expires_at_ms"] where reader.has(name) {
            reader.note(name, "stands in subscription already")
        }
        return reader.members("subscription", isOpen: true) { reader in
            for name in ["endpoint", "keys"] where !reader.has(name) { reader.note(name, "must be given") }
            let endpoint = reader.text("endpoint")
            let (p256dh, auth) = reader.members("keys", isOpen: true) { reader in
                (reader.bytes("p256dh") ?? [], reader.bytes("auth") ?? [])
            }
            return (endpoint, p256dh, auth, reader.time("expirationTime"))
        }
    }

    private static func protobuf(_ bytes: [UInt8]) throws(ProblemDetails) -> DeviceRegistration {
        do throws(MessageError) {
            return try DeviceRegistration.decode(bytes)
        } catch {
            guard !error.field.isEmpty else {
                throw ProblemDetails(.malformedRequest, "the content is not a DeviceRegistration: it \(error.detail)")
            }
            throw .invalid(Self.pointer(error.field), error.detail)
        }
    }

    /// Returns a field as a JSON pointer: `attributes.tags[3]` is `#/attributes/tags/3`. Brackets at the end may hold a name from outside.
    static func pointer(_ field: String) -> String {
        let last = field.hasSuffix("]") ? field.firstIndex(of: "[") : nil
        var pointer = "#/"
        for character in field[..<(last ?? field.endIndex)] where character != "]" {
            pointer.append(character == "." || character == "[" ? "/" : character)
        }
        guard let last else { return pointer }
        return "\(pointer)/\(MemberReader.escaped(String(field[field.index(after: last)...].dropLast())))"
    }
}
