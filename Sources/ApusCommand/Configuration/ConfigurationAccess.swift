package import ApusCore
package import ApusDispatcher
internal import ApusFeedback
package import ApusService
package import ApusStore
package import ApusStreams
package import ApusTerminal

/// Reads the services' configuration for commands.
package enum ConfigurationAccess {
    /// Returns the location of the configuration; nil when there is no file.
    package static func services(in source: SettingsSource) -> SettingsSource? { source.file == nil ? nil : source }

    /// Returns the hosts that browsers of an app may subscribe at, besides those of the known push services. A configuration that cannot be
    /// read names none.
    package static func endpointHosts(of app: AppID, in source: SettingsSource) -> [String] {
        ConfigurationCheck.common(of: source)?.apps[app]?.subscriptions?.hosts ?? []
    }

    /// Returns the rules by which a route's bad or dead tokens are too many, as feedback's settings say. Where there is no configuration, the
    /// rules are the default ones.
    ///
    /// - Throws: `CommandFailure` with every mistake in those settings.
    package static func guardRules(in source: SettingsSource) throws(CommandFailure) -> GuardRules {
        try Self.part(of: source, FeedbackSettings.guardRules)
    }

    /// Returns how devices can be brought back that are deleted for their provider's word, as feedback's settings say; nil: not at all. Where
    /// there is no configuration, the rules are the default ones.
    ///
    /// - Throws: `CommandFailure` with every mistake in that setting.
    package static func undo(in source: SettingsSource) throws(CommandFailure) -> DeviceStore.UndoRules? {
        try Self.part(of: source, FeedbackSettings.undo)
    }

    /// Returns for how long histories of devices are kept, as feedback's settings say; nil: none is written. Where there is no configuration,
    /// the rules are the default ones.
    ///
    /// - Throws: `CommandFailure` with every mistake in those settings.
    package static func history(in source: SettingsSource) throws(CommandFailure) -> DeviceStore.HistoryRules? {
        try Self.part(of: source, FeedbackSettings.history)
    }

    private static func part<Part>(
        of source: SettingsSource,
        _ read: (SettingsReader) -> Part,
    ) throws(CommandFailure) -> Part {
        do throws(SettingsError) {
            return try source.loadPart(read)
        } catch {
            throw CommandFailure("\(error)")
        }
    }

    /// Reads the dispatchers' configuration.
    ///
    /// - Throws: `CommandFailure` with every mistake in it.
    package static func dispatcher(in source: SettingsSource) throws(CommandFailure) -> Settings<DispatcherSettings> {
        do throws(SettingsError) {
            return try source.load(DispatcherSettings.self, for: .dispatcher)
        } catch {
            throw CommandFailure("\(error)")
        }
    }

    /// Reads the configuration of an installation's dispatchers.
    ///
    /// - Throws: `CommandFailure` with every mistake in it, or when there is none.
    package static func dispatcher(of choice: RedisChoice) throws(CommandFailure) -> Settings<DispatcherSettings> {
        let settings = try Self.dispatcher(in: choice.settings)
        // The environment may have all of it.
        guard choice.settings.file != nil || !settings.common.apps.isEmpty else {
            throw CommandFailure("there is no configuration: \(choice.cure)")
        }
        return settings
    }
}
