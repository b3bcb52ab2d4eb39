/// The settings that only one service has.
public protocol ServiceSettings: Sendable, Hashable {
    /// Reads them, by full keys: `dispatcher.window`. Mistakes are noted with the reader.
    init(_ reader: SettingsReader)
}

/// A service without settings of its own.
public struct NoSettings: ServiceSettings {
    /// Nothing.
    public init() {}

    /// Reads nothing.
    public init(_ reader: SettingsReader) {}
}

/// A valid configuration.
public struct Settings<Own: ServiceSettings>: Sendable, Hashable {
    /// What every service has.
    public var common: CommonSettings
    /// What only this one has.
    public var own: Own
    /// Files that are watched beside the configuration: keys, certificates, passwords.
    public var files: [String]
}

/// Where settings come from.
public struct SettingsSource: Sendable, Hashable {
    /// The YAML file; nil: the environment only.
    public var file: String?
    /// The process's environment.
    public var environment: [String: String]

    /// A source.
    public init(file: String?, environment: [String: String]) {
        self.file = file
        self.environment = environment
    }

    /// Reads, checks everything, and tells all mistakes at once.
    ///
    /// - Parameters:
    ///   - type: the service's own settings.
    ///   - service: whose section is read.
    public func load<Own: ServiceSettings>(
        _ type: Own.Type,
        for service: ServiceName,
    ) throws(SettingsError) -> Settings<Own> {
        let file =
            if let path = self.file { try SettingsFile.load(path: path) } else { SettingsFile.empty }
        let reader = SettingsReader(file: file, environment: self.environment, section: service.section)
        let common = CommonSettings(reader, standardPort: service.adminPort)
        let own = Own(reader)
        try reader.finish()
        return Settings(common: common, own: own, files: reader.files)
    }
}
