internal import ApusCore
internal import ApusMetrics
internal import ApusTLS
internal import Configuration
internal import FoundationEssentials

/// A rule for a text: its wording and its check.
public struct SettingRule: Sendable {
    let text: String
    /// Returns true when a text obeys the rule.
    public let accepts: @Sendable (String) -> Bool

    /// Creates a rule.
    ///
    /// - Parameters:
    ///   - text: the wording, which continues a sentence that begins with the key: "must be 10 characters A-Z and 0-9".
    ///   - accepts: returns true when a text obeys the rule.
    public init(_ text: String, _ accepts: @escaping @Sendable (String) -> Bool) {
        self.text = text
        self.accepts = accepts
    }
}

/// Reads settings by key and collects every mistake, so that all are reported at once.
///
/// Values come from the environment (`APUS_REDIS_URL`) first, then from the file (`redis.url`), then from the default.
/// The keys of `admin`, `log`, `redis`, `tracing`, `drain_timeout` and `event_loops` may also stand in the service's
/// own section, which takes precedence. A key becomes known when it is read; a key of the file that nobody has read is
/// a mistake. A value that breaks its rule is reported and replaced by a default, so that reading can continue; such
/// settings are never returned.
public final class SettingsReader {
    /// The service's own section of the file; nil when only common settings are read.
    public let section: String?
    /// The paths of files that the settings name, which are watched like the configuration itself.
    public private(set) var files: [String] = []

    private let file: SettingsFile
    private let entries: [[String]: SettingsFile.Entry]
    private let environment: [String: String]
    private let config: ConfigReader
    private var issues: [SettingsIssue] = []
    /// True while the keys that are read name files of other services only.
    private var readsForOthers = false
    private var readings: [String: SettingReading] = [:]
    private var readKeys: [String] = []
    private var known: Set<[String]> = []
    private var knownVariables: Set<String> = [
        SettingsReader.fileVariable, SettingsReader.contextVariable, BuildInformation.revisionVariable,
    ]

    /// The variable that names the configuration file.
    public static let fileVariable = "APUS_CONFIG"
    /// The variable that names the context of commands; services do without.
    public static let contextVariable = "APUS_CONTEXT"
    /// The sections of services; each service skips the others'.
    static let sections = ServiceName.allCases.map(\.section)
    static let overridable: Set<String> = ["admin", "log", "redis", "tracing", "drain_timeout", "event_loops"]

    init(file: SettingsFile, environment: [String: String], section: String?) {
        self.file = file
        self.section = section
        self.environment = environment.filter { $0.key.hasPrefix("APUS_") }
        self.entries = Dictionary(file.entries.map { ($0.path, $0) }) { first, _ in first }
        var values: [AbsoluteConfigKey: ConfigValue] = [:]
        for entry in file.entries {
            switch entry.value {
            case .scalar(let text): values[AbsoluteConfigKey(entry.path)] = ConfigValue(.string(text), isSecret: false)
            case .list(let items):
                values[AbsoluteConfigKey(entry.path)] = ConfigValue(.stringArray(items), isSecret: false)
            case .section, .nothing: break
            }
        }
        let fromFile = InMemoryProvider(name: file.name, values: values)
        let fromEnvironment = EnvironmentVariablesProvider(environmentVariables: self.environment)
            .prefixKeys(with: ["apus"])
        func ownFirst(_ provider: some ConfigProvider) -> [any ConfigProvider] {
            guard let section else { return [provider] }
            return [provider.prefixKeys(with: ConfigKey([section])), provider]
        }
        // An environment without a variable of Apus has no answer to any key.
        let providers = self.environment.isEmpty ? [] : ownFirst(fromEnvironment)
        self.config = ConfigReader(providers: providers + ownFirst(fromFile))
    }

    // MARK: Reading

    /// Reads a text; nil when the key is absent.
    ///
    /// - Parameter isSecret: true when the value must never be shown.
    public func string(_ key: String, _ rule: SettingRule? = nil, isSecret: Bool = false) -> String? {
        let components = self.note(key)
        self.expect(.scalar(""), at: components)
        let text = self.config.string(forKey: ConfigKey(components))
        self.record(key, components, text, isSecret: isSecret, .text(rule: rule?.text))
        guard let text else { return nil }
        if let rule, !rule.accepts(text) {
            self.issue(key, rule.text)
            return nil
        }
        return text
    }

    /// Reads a text, or returns its default.
    public func string(_ key: String, default defaultValue: String, _ rule: SettingRule? = nil) -> String {
        let text = self.string(key, rule)
        self.describe(key, .text(rule: rule?.text), defaultValue: defaultValue)
        return text ?? defaultValue
    }

    /// Reads a required text; returns "" when it is missing.
    ///
    /// - Parameter isSecret: true when the value must never be shown.
    public func requiredString(_ key: String, _ rule: SettingRule? = nil, isSecret: Bool = false) -> String {
        let issuesBefore = self.issues.count
        if let text = self.string(key, rule, isSecret: isSecret) { return text }
        if self.issues.count == issuesBefore { self.issue(key, "is required") }
        return ""
    }

    /// Reads a whole number.
    public func integer(_ key: String, default defaultValue: Int, in range: ClosedRange<Int>) -> Int {
        precondition(range.contains(defaultValue))
        let given = self.string(key)
        self.describe(key, .integer(range), defaultValue: "\(defaultValue)")
        guard let text = given else { return defaultValue }
        guard let value = Int(text), range.contains(value) else {
            self.issue(key, "must be a whole number from \(range.lowerBound) to \(range.upperBound)")
            return defaultValue
        }
        return value
    }

    /// Reads a limit: a whole number from 1, or `unlimited`, for which it returns nil.
    ///
    /// - Parameter note: a remark for the reference of settings.
    public func limit(_ key: String, default defaultValue: Int?, note: String? = nil) -> Int? {
        let given = self.string(key)
        self.describe(key, .limit, defaultValue: defaultValue.map { "\($0)" } ?? "unlimited")
        self.readings[key]?.note = note
        guard let text = given else { return defaultValue }
        if text == "unlimited" { return nil }
        guard let value = Int(text), (1...1_000_000_000).contains(value) else {
            self.issue(key, "must be a whole number from 1 to 1000000000, or unlimited")
            return defaultValue
        }
        return value
    }

    /// Returns true when a setting that has been read was given explicitly, not defaulted.
    public func isGiven(_ key: String) -> Bool {
        guard case .given = self.readings[key]?.origin else { return false }
        return true
    }

    /// Returns true when a mistake of a setting has been reported.
    func isRefused(_ key: String) -> Bool { self.issues.contains { $0.key == key } }

    /// Reads `true` or `false`.
    public func boolean(_ key: String, default defaultValue: Bool) -> Bool {
        let given = self.string(key)
        self.describe(key, .boolean, defaultValue: "\(defaultValue)")
        switch given {
        case nil: return defaultValue
        case "true"?: return true
        case "false"?: return false
        case .some:
            self.issue(key, "must be true or false")
            return defaultValue
        }
    }

    /// Reads a duration with a unit.
    public func duration(_ key: String, default defaultValue: Duration, in range: ClosedRange<Duration>) -> Duration {
        precondition(range.contains(defaultValue))
        let given = self.string(key)
        self.describe(key, .duration(range), defaultValue: SettingsQuantity.text(defaultValue))
        guard let text = given else { return defaultValue }
        guard let value = SettingsQuantity.duration(text) else {
            self.issue(key, SettingsQuantity.durationRule)
            return defaultValue
        }
        guard range.contains(value) else {
            let least = SettingsQuantity.text(range.lowerBound)
            self.issue(key, "must be from \(least) to \(SettingsQuantity.text(range.upperBound))")
            return defaultValue
        }
        return value
    }

    /// Reads a size in bytes.
    public func size(_ key: String, default defaultValue: Int, in range: ClosedRange<Int>) -> Int {
        precondition(range.contains(defaultValue))
        let given = self.string(key)
        self.describe(key, .size(range), defaultValue: "\(defaultValue)")
        guard let text = given else { return defaultValue }
        guard let value = SettingsQuantity.size(text) else {
            self.issue(key, SettingsQuantity.sizeRule)
            return defaultValue
        }
        guard range.contains(value) else {
            self.issue(key, "must be from \(range.lowerBound) to \(range.upperBound) bytes")
            return defaultValue
        }
        return value
    }

    /// Reads one of a set of words; nil when the key is absent or the word is not in the set.
    public func choice<Choice>(_ key: String, as type: Choice.Type = Choice.self) -> Choice?
    where Choice: CaseIterable & RawRepresentable, Choice.RawValue == String {
        let given = self.string(key)
        self.describe(key, .choice(Choice.allCases.map(\.rawValue)))
        guard let text = given else { return nil }
        if let value = Choice(rawValue: text) { return value }
        self.issue(key, "must be one of " + Choice.allCases.map(\.rawValue).joined(separator: ", "))
        return nil
    }

    /// Reads one of a set of words, or returns the default.
    public func choice<Choice>(_ key: String, default defaultValue: Choice) -> Choice
    where Choice: CaseIterable & RawRepresentable, Choice.RawValue == String {
        let value = self.choice(key, as: Choice.self)
        self.describe(key, .choice(Choice.allCases.map(\.rawValue)), defaultValue: defaultValue.rawValue)
        return value ?? defaultValue
    }

    /// Reads a required word of a set; returns the stand-in when it is missing, which no service ever sees.
    public func requiredChoice<Choice>(_ key: String, standIn: Choice) -> Choice
    where Choice: CaseIterable & RawRepresentable, Choice.RawValue == String {
        let issuesBefore = self.issues.count
        if let value = self.choice(key, as: Choice.self) { return value }
        if self.issues.count == issuesBefore { self.issue(key, "is required") }
        return standIn
    }

    /// Reads a list of words; in the environment they are separated by commas.
    public func strings(_ key: String) -> [String]? {
        let components = self.note(key)
        self.expect(.list([]), at: components)
        let words = self.config.stringArray(forKey: ConfigKey(components))
        self.record(key, components, words.map { $0.joined(separator: ",") }, isSecret: false, .list)
        return words
    }

    /// Reads a list of words, or returns its default.
    public func strings(_ key: String, default defaultValue: [String]) -> [String] {
        let words = self.strings(key)
        self.describe(key, .list, defaultValue: defaultValue.joined(separator: ","))
        return words ?? defaultValue
    }

    /// Reads the path of a readable file, which is watched from then on; nil when the key is absent. The file's content is not read here.
    public func filePath(_ key: String) -> String? {
        let given = self.string(key)
        self.describe(key, .file)
        guard let path = given else { return nil }
        // A file of another service need not be there, and this one may not be permitted to read it.
        guard !self.readsForOthers else { return path }
        // One that is missing is watched, too: it may come later.
        self.files.append(path)
        if let problem = fileProblem(path) {
            self.issue(key, Self.fileRule(path, problem))
            return nil
        }
        return path
    }

    /// Returns the sentence about a file that cannot be read. A value that is no absolute path may be a secret in the wrong place.
    private static func fileRule(_ path: String, _ problem: String) -> String {
        guard path.hasPrefix("/"), path.utf8.count <= 1_024, !path.contains(where: \.isNewline) else {
            return "must be the path of a readable file: \(problem)"
        }
        return "must be the path of a readable file: \(path): \(problem)"
    }

    /// Reads settings whose files only some services read: for others the paths are neither checked nor watched.
    public func withFiles<Result>(of services: ServiceName..., read: () -> Result) -> Result {
        let before = self.readsForOthers
        self.readsForOthers = !services.contains { $0.section == self.section }
        defer { self.readsForOthers = before }
        return read()
    }

    /// Reads a list of paths of readable files, which are watched from then on; empty when the key is absent.
    public func filePaths(_ key: String) -> [String] {
        let paths = self.strings(key, default: [])
        guard !self.readsForOthers else { return paths }
        self.files += paths
        for path in paths {
            guard let problem = fileProblem(path) else { continue }
            self.issue(key, Self.fileRule(path, problem))
            return []
        }
        return paths
    }

    /// Returns a digest of what files contain: settings with it differ when a file changes that is read only as the service's parts are made.
    public func digest(of paths: String?...) -> [UInt8] {
        let contents = paths.map { path in path.flatMap { try? Data(contentsOf: URL(filePath: $0)) } ?? Data() }
        return SHA256.hash(contents.flatMap { SHA256.hash(Array($0)) })
    }

    /// Reads the required path of a readable file.
    public func requiredFilePath(_ key: String) -> String {
        let issuesBefore = self.issues.count
        if let path = self.filePath(key) { return path }
        if self.issues.count == issuesBefore { self.issue(key, "is required") }
        return ""
    }

    /// Returns true when anything is set below a key, in the file or in the environment.
    public func hasSection(_ key: String) -> Bool {
        let components = key.split(separator: ".").map(String.init)
        self.known.insert(components)
        if let entry = self.entries[components] {
            if entry.value == .section { return true }
            if entry.value != .nothing { self.issue(key, "must be a section of keys") }
        }
        let prefix = Self.variable(components) + "_"
        return self.environment.keys.contains { $0.hasPrefix(prefix) }
    }

    /// Returns the names below a key of the file, such as the apps below `apps`.
    public func names(in key: String) -> [String] {
        let components = key.split(separator: ".").map(String.init)
        self.known.insert(components)
        if let entry = self.entries[components], entry.value != .section, entry.value != .nothing {
            self.issue(key, "must be a section of keys")
        }
        let below = self.file.entries.filter {
            $0.path.count == components.count + 1 && $0.path.starts(with: components)
        }
        for entry in below {
            self.known.insert(entry.path)
            if entry.value != .section, entry.value != .nothing {
                self.issue(entry.path.joined(separator: "."), "must be a section of keys")
            }
        }
        return below.compactMap(\.path.last)
    }

    /// Reports a mistake that the caller found.
    public func issue(_ key: String, _ message: String) {
        let components = key.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        self.issues.append(SettingsIssue(key: key, place: self.place(of: components), message: message))
        // The value may be a secret in the wrong place.
        if case .given = self.readings[key]?.origin { self.readings[key]?.value = SettingReading.refused }
    }

    // MARK: Result

    /// All settings that were read, in that order.
    var everyReading: [SettingReading] { self.readKeys.compactMap { self.readings[$0] } }

    /// All mistakes, including unknown keys.
    var mistakes: [SettingsIssue] { self.issues + self.unknownKeys() + self.unknownVariables() }

    /// Throws when there are mistakes.
    ///
    /// - Parameter isPart: true when only a part of the settings was read, so that others are not unknown.
    func finish(isPart: Bool = false) throws(SettingsError) {
        let all = isPart ? self.issues : self.mistakes
        guard all.isEmpty else { throw SettingsError(issues: all, files: self.files) }
    }

    private func unknownKeys() -> [SettingsIssue] {
        var parents: Set<[String]> = []
        for path in self.known {
            for length in 1...path.count { parents.insert(Array(path.prefix(length))) }
        }
        for section in Self.sections { parents.insert([section]) }
        var reported: Set<[String]> = []
        var issues: [SettingsIssue] = []
        for entry in self.file.entries where !self.known.contains(entry.path) {
            if let first = entry.path.first, Self.sections.contains(first), first != self.section { continue }
            if parents.contains(entry.path) {
                if entry.value == .section || entry.value == .nothing { continue }
                let place = "\(self.file.name):\(entry.line)"
                let key = entry.path.joined(separator: ".")
                issues.append(SettingsIssue(key: key, place: place, message: "must be a section of keys"))
                continue
            }
            // Only the head of an unknown section is reported.
            guard !reported.contains(where: { entry.path.starts(with: $0) }) else { continue }
            reported.insert(entry.path)
            let siblings = parents.filter { $0.count == entry.path.count && $0.dropLast() == entry.path.dropLast() }
            let near = closest(to: entry.path[entry.path.count - 1], among: siblings.compactMap(\.last))
            let suggestion = near.map { "; did you mean \((entry.path.dropLast() + [$0]).joined(separator: "."))?" }
            issues.append(
                SettingsIssue(
                    key: entry.path.joined(separator: "."),
                    place: "\(self.file.name):\(entry.line)",
                    message: "is not a known key" + (suggestion ?? ""),
                )
            )
        }
        return issues
    }

    private func unknownVariables() -> [SettingsIssue] {
        let foreign = Self.sections.filter { $0 != self.section }.map { Self.variable([$0]) + "_" }
        return self.environment.keys.sorted().compactMap { name in
            guard !self.knownVariables.contains(name), !isServiceLink(name) else { return nil }
            guard !foreign.contains(where: { name.hasPrefix($0) }) else { return nil }
            let suggestion = closest(to: name, among: self.knownVariables).map { "; did you mean \($0)?" } ?? ""
            return SettingsIssue(key: "", place: name, message: "is not a known variable" + suggestion)
        }
    }

    // MARK: Typed values

    private func record(_ key: String, _ components: [String], _ text: String?, isSecret: Bool, _ kind: SettingKind) {
        if self.readings[key] == nil { self.readKeys.append(key) }
        self.readings[key] = SettingReading(
            key: key,
            value: text.map { isSecret ? SettingReading.secret : SettingReading.shown($0) },
            origin: text == nil ? .unset : self.place(of: components).map { .given($0) } ?? .unset,
            kind: kind,
        )
    }

    /// Adds the kind and the default to the setting that was just read.
    private func describe(_ key: String, _ kind: SettingKind, defaultValue: String? = nil) {
        self.readings[key]?.kind = kind
        guard let defaultValue else { return }
        self.readings[key]?.defaultValue = defaultValue
        guard self.readings[key]?.value == nil else { return }
        self.readings[key]?.value = defaultValue
        self.readings[key]?.origin = .default
    }

    // MARK: Keys

    private func note(_ key: String) -> [String] {
        let components = key.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
        precondition(!components.isEmpty)
        for path in self.candidates(components) {
            self.known.insert(path)
            self.knownVariables.insert(Self.variable(path))
        }
        return components
    }

    /// Returns the places where a key may stand, the one with precedence first.
    private func candidates(_ components: [String]) -> [[String]] {
        guard let section, let first = components.first, Self.overridable.contains(first) else { return [components] }
        return [[section] + components, components]
    }

    private func place(of components: [String]) -> String? {
        for path in self.candidates(components) {
            let variable = Self.variable(path)
            if self.environment[variable] != nil { return variable }
        }
        for path in self.candidates(components) {
            if let entry = self.entries[path] { return "\(self.file.name):\(entry.line)" }
        }
        return nil
    }

    private func expect(_ kind: SettingsFile.Value, at components: [String]) {
        for path in self.candidates(components) {
            guard let entry = self.entries[path] else { continue }
            switch (kind, entry.value) {
            case (.scalar, .scalar), (.list, .list), (_, .nothing): continue
            case (.list, _): self.issue(path.joined(separator: "."), "must be a list, such as [one, two]")
            default: self.issue(path.joined(separator: "."), "must be a single value")
            }
        }
    }

    /// Returns the variable of a key: `redis.ca_file` is `APUS_REDIS_CA_FILE`.
    static func variable(_ components: [String]) -> String {
        let name = (["apus"] + components).joined(separator: "_").uppercased()
        guard name.utf8.allSatisfy({ $0 < 0x80 }) else {
            return String(name.map { $0.isLetter || $0.isNumber ? $0 : "_" })
        }
        let bytes = name.utf8.map { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5a, 0x61...0x7a: byte
            default: UInt8(ascii: "_")
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

/// Returns true when Kubernetes sets the variable for a Service whose name begins with "apus-".
///
/// Source: https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
private func isServiceLink(_ name: String) -> Bool {
    let parts = name.split(separator: "_").map(String.init)
    if name.contains("_SERVICE_HOST") || name.contains("_SERVICE_PORT") { return true }
    guard let port = parts.lastIndex(of: "PORT") else { return false }
    guard port + 2 < parts.count else { return port == parts.count - 1 }
    return Int(parts[port + 1]) != nil && ["TCP", "UDP", "SCTP"].contains(parts[port + 2])
}
