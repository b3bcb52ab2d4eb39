/// The settings that only one service has.
public protocol ServiceSettings: Sendable, Hashable {
    /// Event loops that the service has besides the configured ones.
    static var reservedEventLoops: Int { get }

    /// Reads them, by full keys: `dispatcher.window`. Mistakes are noted with the reader.
    init(_ reader: SettingsReader)
}

extension ServiceSettings {
    /// None.
    public static var reservedEventLoops: Int { 0 }
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

    /// The configuration's place by default.
    public static let defaultFile = "/etc/apus/apus.yaml"

    /// The file that was given, else the one that the environment names, else the default one if it is there.
    public init(given file: String?, environment: [String: String]) {
        let fallback = isReadableFile(Self.defaultFile) ? Self.defaultFile : nil
        self.init(file: file ?? environment[SettingsReader.fileVariable] ?? fallback, environment: environment)
    }

    /// Reads and checks what all services share, for tools; the services' own sections are left alone.
    public func loadCommon() throws(SettingsError) -> CommonSettings {
        let reader = SettingsReader(file: try self.contents(), environment: self.environment, section: nil)
        let common = CommonSettings(reader, defaultPort: 0)
        try reader.finish()
        return common
    }

    func contents() throws(SettingsError) -> SettingsFile {
        if let path = self.file { try SettingsFile.load(path: path) } else { SettingsFile.empty }
    }

    /// Reads and checks everything, and reports all mistakes at once.
    ///
    /// - Parameters:
    ///   - type: the service's own settings.
    ///   - service: whose section is read.
    public func load<Own: ServiceSettings>(
        _ type: Own.Type,
        for service: ServiceName,
    ) throws(SettingsError) -> Settings<Own> {
        let reader = SettingsReader(file: try self.contents(), environment: self.environment, section: service.section)
        let common = CommonSettings(reader, defaultPort: service.adminPort)
        let own = Own(reader)
        try reader.finish()
        return Settings(common: common, own: own, files: reader.files)
    }
}
