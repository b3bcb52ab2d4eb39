internal import ApusCore
internal import ApusMessages

/// Reads what `PUT …/devices/{device}` brings, in either form. Pure.
enum RegistrationBody {
    /// From the bytes of the body.
    ///
    /// - Parameter device: the path's; the body may repeat it, but not name another.
    static func read(
        _ bytes: [UInt8],
        as type: MediaType,
        device: DeviceID,
    ) throws(ProblemDetails) -> DeviceRegistration {
        let registration: DeviceRegistration
        switch type {
        case .protobuf: registration = try Self.protobuf(bytes)
        case .json, .mergePatch: registration = try Self.json(bytes, device: device)
        }
        guard registration.device == device.text else {
            throw .invalid("#/device", "must be the device of the path")
        }
        let breaches = RegistrationRules.breaches(registration)
        guard breaches.isEmpty else { throw .invalid(breaches) }
        return registration
    }

    /// The JSON object of a body.
    static func object(_ bytes: [UInt8]) throws(ProblemDetails) -> JSONObject {
        let value: JSONValue
        do throws(JSONError) {
            value = try JSONValue(parsing: bytes, bytesMax: APILimits.bodyBytesMax)
        } catch {
            throw ProblemDetails(.malformedRequest, "the content is not JSON: \(error)")
        }
        guard let object = value.object else { throw .invalid("#", "must be an object") }
        return object
    }

    private static func json(_ bytes: [UInt8], device: DeviceID) throws(ProblemDetails) -> DeviceRegistration {
        var reader = MemberReader(try Self.object(bytes), at: "#")
        let provider = reader.word("provider", Provider.allCases, \.name)
        if provider == nil, !reader.has("provider") { reader.note("provider", "must be given") }
        let token = reader.text("token")
        if token == nil, !reader.has("token") { reader.note("token", "must be given") }
        var registration = DeviceRegistration(
            device: reader.text("device") ?? device.text,
            provider: provider ?? .apns,
            token: token ?? "",
        )
        if let environment = reader.word("environment", ProviderEnvironment.allCases, \.name) {
            registration.environment = environment
        }
        if let kind = reader.word("token_kind", TokenKind.allCases, \.name) { registration.tokenKind = kind }
        if let user = reader.text("user") { registration.user = user }
        registration.topics = reader.texts("topics")
        if let bytes = reader.bytes("webpush_p256dh") { registration.webpushP256DH = bytes }
        if let bytes = reader.bytes("webpush_auth") { registration.webpushAuth = bytes }
        var inner = MemberReader(reader.object("attributes") ?? [:], at: "#/attributes")
        registration.attributes.locale = inner.text("locale") ?? ""
        registration.attributes.timeZone = inner.text("time_zone") ?? ""
        registration.attributes.appVersion = inner.text("app_version") ?? ""
        registration.attributes.country = inner.text("country") ?? ""
        registration.attributes.tags = inner.texts("tags") ?? []
        let mistakes = reader.mistakes + inner.mistakes
        guard mistakes.isEmpty else {
            // Rules that do not hang on what could not be read are told at once too.
            let told = Set(mistakes.map(\.pointer))
            let isReadable = provider != nil && token != nil
            let more = isReadable ? RegistrationRules.breaches(registration) : []
            throw .invalid(mistakes + more.filter { !told.contains($0.pointer) })
        }
        return registration
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

    /// `attributes.tags[3]` is `#/attributes/tags/3`.
    static func pointer(_ field: String) -> String {
        var pointer = "#/"
        for character in field where character != "]" {
            pointer.append(character == "." || character == "[" ? "/" : character)
        }
        return pointer
    }
}
