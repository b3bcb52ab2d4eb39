/// The kinds of values that settings take.
public enum SettingKind: Hashable, Sendable {
    /// A text; the rule continues a sentence that begins with the key.
    case text(rule: String?)
    /// A whole number.
    case integer(ClosedRange<Int>)
    /// A whole number from 1, or `unlimited`.
    case limit
    /// `true` or `false`.
    case boolean
    /// A duration with its unit.
    case duration(ClosedRange<Duration>)
    /// Bytes.
    case size(ClosedRange<Int>)
    /// One of the given words.
    case choice([String])
    /// A list of words.
    case list
    /// The path of a readable file.
    case file
}

/// A setting as it was read: its value and the value's origin.
public struct SettingReading: Hashable, Sendable {
    /// The origins of a value.
    public enum Origin: Hashable, Sendable {
        /// A variable of the environment or a line of the file.
        case given(String)
        /// No value was given, so the default applies.
        case `default`
        /// No value was given, and there is no default.
        case unset
    }

    /// The text that replaces a secret.
    public static let secret = "(not shown)"

    /// The text that replaces a value that breaks a rule: it may be a secret in the wrong place.
    public static let refused = "(refused)"

    /// The key as the service asks for it: `redis.url`.
    public internal(set) var key: String
    /// The value in force, fit to be shown; nil when there is none.
    public internal(set) var value: String?
    /// The origin of the value.
    public internal(set) var origin: Origin
    /// The kind of value that the setting takes.
    public internal(set) var kind: SettingKind
    /// The value that applies when none is given; nil when there is none.
    public internal(set) var defaultValue: String?
    /// A remark for readers of the reference; nil for none.
    public internal(set) var note: String?

    /// Returns a value fit to be shown: an address may hold a password between user and host, and behind the question mark.
    static func shown(_ text: String) -> String {
        guard let start = text.firstRange(of: "://")?.upperBound else { return text }
        var rest = text[start...]
        if let at = rest.prefix(while: { $0 != "/" }).lastIndex(of: "@") {
            let user = rest[..<at].prefix { $0 != ":" }
            rest = "\(user):\(self.secret)\(rest[at...])"
        }
        guard let mark = rest.firstIndex(of: "?") else { return String(text[..<start] + rest) }
        return String(text[..<start] + rest[...mark]) + self.secret
    }

    init(key: String, value: String?, origin: Origin, kind: SettingKind) {
        self.key = key
        self.value = value
        self.origin = origin
        self.kind = kind
    }
}

/// A configuration as a service reads it, including its mistakes.
public struct SettingsSurvey: Hashable, Sendable {
    /// Every setting that the service asked for, in that order.
    public let readings: [SettingReading]
    /// The mistakes found; empty for a valid configuration.
    public let mistakes: [SettingsIssue]
}

extension SettingsSource {
    /// Reads everything that a service reads, and returns the readings and the mistakes.
    ///
    /// - Throws: when the file is not YAML.
    public func survey<Own: ServiceSettings>(
        _ type: Own.Type,
        for service: ServiceName,
    ) throws(SettingsError) -> SettingsSurvey {
        self.survey(type, for: service, of: try self.contents())
    }

    /// Returns every setting that exists, in each place where it may stand; names of apps, of their keys and of publishers are `*`.
    public static func everySetting<Own: ServiceSettings>(
        of type: Own.Type,
        for service: ServiceName,
    ) throws(SettingsError) -> [SettingReading] {
        let sections = ProviderSection.installed.map { "\($0.name): {}, " }.joined()
        let outline = try SettingsFile.parse(
            """
            apps: {any: {\(sections)auth: {jwt: {}, api_keys: {any: {}}}}}
            feedback: {webhook: {}}
            publishers: {any: {}}
            """,
            name: "outline",
        )
        let readings = SettingsSource(file: nil, environment: [:]).survey(type, for: service, of: outline).readings
        return readings.flatMap { reading in
            var general = reading
            general.key = reading.key.replacing("apps.any.", with: "apps.*.")
                .replacing("api_keys.any.", with: "api_keys.*.")
                .replacing("publishers.any.", with: "publishers.*.")
            let head = String(reading.key.prefix { $0 != "." })
            guard SettingsReader.overridable.contains(head) else { return [general] }
            var own = general
            own.key = "\(service.section).\(general.key)"
            return [general, own]
        }
    }

    private func survey<Own: ServiceSettings>(
        _ type: Own.Type,
        for service: ServiceName,
        of file: SettingsFile,
    ) -> SettingsSurvey {
        let reader = SettingsReader(file: file, environment: self.environment, section: service.section)
        _ = CommonSettings(reader, defaultPort: service.adminPort)
        _ = Own(reader)
        return SettingsSurvey(readings: reader.everyReading, mistakes: reader.mistakes)
    }
}
