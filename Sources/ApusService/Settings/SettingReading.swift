/// What kind of value a setting takes.
public enum SettingKind: Hashable, Sendable {
    /// A text; the rule goes on after the key.
    case text(rule: String?)
    /// A whole number.
    case integer(ClosedRange<Int>)
    /// A whole number from 1, or `unlimited`.
    case rate
    /// `true` or `false`.
    case boolean
    /// A duration with its unit.
    case duration(ClosedRange<Duration>)
    /// Bytes.
    case size(ClosedRange<Int>)
    /// One of these words.
    case choice([String])
    /// Words.
    case list
    /// The path of a readable file.
    case file
}

/// A setting as it was read: its value, and where that is from.
public struct SettingReading: Hashable, Sendable {
    /// Where a value is from.
    public enum Origin: Hashable, Sendable {
        /// A variable of the environment, or a line of the file.
        case given(String)
        /// None was given.
        case `default`
        /// None was given, and there is no default.
        case unset
    }

    /// Stands for a secret.
    public static let secret = "(not shown)"

    /// Stands for a value that breaks a rule: it may be a secret in the wrong place.
    public static let refused = "(refused)"

    /// The key as the service asks for it: `redis.url`.
    public internal(set) var key: String
    /// The value in force, fit to be shown; nil when there is none.
    public internal(set) var value: String?
    /// Where the value is from.
    public internal(set) var origin: Origin
    /// The values that it may have.
    public internal(set) var kind: SettingKind
    /// The value when none is given; nil when there is none.
    public internal(set) var defaultValue: String?
    /// A remark for people; nil for none.
    public internal(set) var note: String?

    /// A value fit to be shown: what comes after the question mark of an address may be a password to somebody.
    static func shown(_ text: String) -> String {
        guard text.contains("://"), let mark = text.firstIndex(of: "?") else { return text }
        return text[...mark] + self.secret
    }

    init(key: String, value: String?, origin: Origin, kind: SettingKind) {
        self.key = key
        self.value = value
        self.origin = origin
        self.kind = kind
    }
}

/// A configuration as a service reads it, mistakes and all.
public struct SettingsSurvey: Hashable, Sendable {
    /// Every setting that was asked for, in that order.
    public let readings: [SettingReading]
    /// What is wrong; empty: nothing.
    public let mistakes: [SettingsIssue]
}

extension SettingsSource {
    /// Reads everything as a service does, and returns what it read.
    ///
    /// - Throws: when the file is no YAML at all.
    public func survey<Own: ServiceSettings>(
        _ type: Own.Type,
        for service: ServiceName,
    ) throws(SettingsError) -> SettingsSurvey {
        self.survey(type, for: service, of: try self.contents())
    }

    /// Every setting that there is, in each place where it may stand: names of apps and of their keys are `*`.
    public static func everySetting<Own: ServiceSettings>(
        of type: Own.Type,
        for service: ServiceName,
    ) throws(SettingsError) -> [SettingReading] {
        let sections = ProviderSection.installed.map { "\($0.name): {}, " }.joined()
        let outline = try SettingsFile.parse(
            """
            apps: {any: {\(sections)auth: {jwt: {}, api_keys: {any: {}}}}}
            feedback: {webhook: {}}
            """,
            name: "outline",
        )
        let readings = SettingsSource(file: nil, environment: [:]).survey(type, for: service, of: outline).readings
        return readings.flatMap { reading in
            var general = reading
            general.key = reading.key.replacing("apps.any.", with: "apps.*.")
                .replacing("api_keys.any.", with: "api_keys.*.")
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
