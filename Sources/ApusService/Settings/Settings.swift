/// The settings that only one service has.
public protocol ServiceSettings: Sendable, Hashable {
    /// The number of event loops that the service needs besides the configured ones.
    static var reservedEventLoops: Int { get }

    /// Reads the settings by full keys, such as `dispatcher.window`. Mistakes are reported to the reader.
    init(_ reader: SettingsReader)

    /// Reads the files that only this service reads when it starts, and uses none of them.
    ///
    /// - Returns: why it could not start with them; empty when it could.
    static func issues(ofFilesIn settings: Settings<Self>) -> [SettingsIssue]
}

extension ServiceSettings {
    /// Returns 0: most services need no further event loops.
    public static var reservedEventLoops: Int { 0 }

    /// Returns nothing: most services start whatever their files hold.
    public static func issues(ofFilesIn settings: Settings<Self>) -> [SettingsIssue] { [] }
}

/// Stands for the settings of a service that has none of its own.
public struct NoSettings: ServiceSettings {
    /// Creates the empty settings.
    public init() {}

    /// Reads nothing.
    public init(_ reader: SettingsReader) {}
}

/// Holds a valid configuration.
public struct Settings<Own: ServiceSettings>: Sendable, Hashable {
    /// The settings that every service has.
    public var common: CommonSettings
    /// The settings that only this service has.
    public var own: Own
    /// The paths of files that are watched besides the configuration: keys, certificates, passwords.
    public var files: [String]
    /// True when the file has no entry, or there is none.
    let isFileEmpty: Bool

    /// Reads the files that the service reads when it starts, and uses none of them.
    ///
    /// - Returns: why it could not start with them; empty when it could.
    package func issuesOfFiles() -> [SettingsIssue] {
        let common = self.common
        return SettingsIssue.issues(ofAuthoritiesIn: common.redis.caFile, key: "redis.ca_file")
            + SettingsIssue.issues(ofAuthoritiesIn: common.tracing.caFile, key: "tracing.ca_file")
            + (common.admin.tls?.issues(for: AdminSettings.tlsKey) ?? [])
            + Own.issues(ofFilesIn: self)
    }
}

/// Locates the settings: a file and the environment.
public struct SettingsSource: Sendable, Hashable {
    /// The path of the YAML file; nil for the environment only.
    public var file: String?
    /// The process's environment.
    public var environment: [String: String]

    /// Creates a source.
    public init(file: String?, environment: [String: String]) {
        self.file = file
        self.environment = environment
    }

    /// The default path of the configuration.
    public static let defaultFile = "/etc/apus/apus.yaml"

    /// Chooses the file: the given one, else the one that the environment names, else the default file if it exists.
    public init(given file: String?, environment: [String: String]) {
        // One that is there and may not be read is named when it is read, rather than passed over.
        let fallback = fileExists(Self.defaultFile) ? Self.defaultFile : nil
        self.init(file: file ?? environment[SettingsReader.fileVariable] ?? fallback, environment: environment)
    }

    /// Reads and checks the settings that all services share, for tools; the services' own sections are skipped.
    public func loadCommon() throws(SettingsError) -> CommonSettings {
        let reader = SettingsReader(file: try self.contents(), environment: self.environment, section: nil)
        let common = CommonSettings(reader, defaultPort: 0)
        try reader.finish()
        return common
    }

    /// Reads and checks the section `redis` alone, for commands.
    public func loadRedis() throws(SettingsError) -> RedisSettings {
        try self.loadPart { RedisSettings($0) }
    }

    /// Reads and checks the section `store` alone, for commands.
    public func loadStore() throws(SettingsError) -> StoreSettings {
        try self.loadPart { StoreSettings($0) }
    }

    /// Reads and checks a part of the configuration alone, for commands: they may not read the files of the rest.
    package func loadPart<Part>(_ read: (SettingsReader) -> Part) throws(SettingsError) -> Part {
        let reader = SettingsReader(file: try self.contents(), environment: self.environment, section: nil)
        let part = read(reader)
        try reader.finish(isPart: true)
        return part
    }

    func contents() throws(SettingsError) -> SettingsFile {
        if let path = self.file { try SettingsFile.load(path: path) } else { SettingsFile.empty }
    }

    /// Reads and checks the whole configuration, and reports all mistakes at once.
    ///
    /// - Parameters:
    ///   - type: the type of the service's own settings.
    ///   - service: the service whose section is read.
    public func load<Own: ServiceSettings>(
        _ type: Own.Type,
        for service: ServiceName,
    ) throws(SettingsError) -> Settings<Own> {
        let file = try self.contents()
        let reader = SettingsReader(file: file, environment: self.environment, section: service.section)
        let common = CommonSettings(reader, defaultPort: service.adminPort)
        let own = Own(reader)
        try reader.finish()
        return Settings(common: common, own: own, files: reader.files, isFileEmpty: file.entries.isEmpty)
    }
}
