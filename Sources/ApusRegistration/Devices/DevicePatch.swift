internal import ApusCore
internal import ApusMessages

/// Reads a merge patch (RFC 7396) for what may be changed of a device: its user, its attributes and its badge. It is pure.
struct DevicePatch: Hashable {
    /// A member of the patch.
    enum Change<Value: Hashable>: Hashable {
        /// The member is missing.
        case keep
        /// The member is replaced; `null` replaces by the empty value.
        case replace(Value)

        func applied(to value: Value) -> Value {
            switch self {
            case .keep: value
            case .replace(let new): new
            }
        }
    }

    private(set) var user = Change<String>.keep
    private(set) var badge = Change<UInt32>.keep
    private var replacesAttributes = false
    private var locale = Change<String>.keep
    private var timeZone = Change<String>.keep
    private var appVersion = Change<String>.keep
    private var country = Change<String>.keep
    private var tags = Change<[String]>.keep

    /// The members that only a registration or a route of its own may change.
    static let fixed = [
        "device", "provider", "token", "environment", "token_kind", "webpush_p256dh", "webpush_auth",
        "subscription", "application_server_key", "expires_at_ms", "topics",
    ]

    /// Reads a body.
    init(_ bytes: [UInt8]) throws(ProblemDetails) {
        var reader = MemberReader(try RegistrationBody.object(bytes))
        for name in Self.fixed where reader.has(name) {
            reader.note(name, name == "topics" ? "is changed at …/topics/{topic}, or by PUT" : "is changed by PUT only")
        }
        if reader.has("user") { self.user = .replace(reader.text("user") ?? "") }
        if reader.has("badge") { self.badge = .replace(reader.number("badge") ?? 0) }
        self.replacesAttributes = reader.has("attributes") && reader.value("attributes") == nil
        reader.members("attributes") { reader in
            self.locale = Self.text("locale", &reader)
            self.timeZone = Self.text("time_zone", &reader)
            self.appVersion = Self.text("app_version", &reader)
            self.country = Self.text("country", &reader)
            if reader.has("tags") { self.tags = .replace(reader.texts("tags") ?? []) }
        }
        var breaches = reader.finish()
        if case .replace(let user) = self.user, let breach = RegistrationRules.user(user) {
            breaches.append(.init(pointer: "#/user", detail: breach))
        }
        if case .replace(let badge) = self.badge, let breach = RegistrationRules.badge(badge) {
            breaches.append(.init(pointer: "#/badge", detail: breach))
        }
        breaches += RegistrationRules.attributes(self.attributes(over: Attributes()), at: "#/attributes")
        guard breaches.isEmpty else { throw .invalid(breaches) }
    }

    private static func text(_ name: String, _ reader: inout MemberReader) -> Change<String> {
        reader.has(name) ? .replace(reader.text(name) ?? "") : .keep
    }

    /// Returns the attributes after the patch.
    func attributes(over attributes: Attributes) -> Attributes {
        var attributes = self.replacesAttributes ? Attributes() : attributes
        attributes.locale = self.locale.applied(to: attributes.locale)
        attributes.timeZone = self.timeZone.applied(to: attributes.timeZone)
        attributes.appVersion = self.appVersion.applied(to: attributes.appVersion)
        attributes.country = self.country.applied(to: attributes.country)
        attributes.tags = self.tags.applied(to: attributes.tags)
        return attributes
    }
}
