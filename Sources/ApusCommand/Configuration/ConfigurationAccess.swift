package import ApusCore
package import ApusDispatcher
internal import ApusFeedback
package import ApusService
package import ApusStore
package import ApusStreams
package import ApusTerminal
internal import FoundationEssentials

/// Loads the configuration of the dispatchers for commands.
package enum ConfigurationAccess {
    /// Returns the location of the configuration.
    ///
    /// - Parameter file: the path; nil for the environment only.
    package static func source(file: String?) -> SettingsSource {
        SettingsSource(file: file, environment: ProcessInfo.processInfo.environment)
    }

    /// Returns the location of the configuration; nil when there is none.
    ///
    /// - Parameter file: the path; nil for none.
    package static func services(file: String?) -> SettingsSource? { file.map { Self.source(file: $0) } }

    /// Returns the hosts that browsers of an app may subscribe at, besides those of the known push services.
    ///
    /// - Parameter file: the path; nil for none. A configuration that cannot be read names none.
    package static func endpointHosts(of app: AppID, file: String?) -> [String] {
        let settings = Self.services(file: file).flatMap { ConfigurationCheck.common(of: $0) }
        return settings?.apps[app]?.subscriptions?.hosts ?? []
    }

    /// Returns the rules by which a route's bad or dead tokens are too many, as feedback's settings say.
    ///
    /// - Parameter file: the path; nil for the services' default. Where there is no configuration, the rules are the default ones.
    /// - Throws: `CommandFailure` with every mistake in those settings.
    package static func guardRules(file: String?) throws(CommandFailure) -> GuardRules {
        do throws(SettingsError) {
            return try Self.source(file: file).loadPart(FeedbackSettings.guardRules)
        } catch {
            throw CommandFailure("\(error)")
        }
    }

    /// Returns how devices can be brought back that are deleted for their provider's word, as feedback's settings say; nil: not at all.
    ///
    /// - Parameter file: the path; nil for none. Where there is no configuration, the rules are the default ones.
    /// - Throws: `CommandFailure` with every mistake in that setting.
    package static func undo(file: String?) throws(CommandFailure) -> DeviceStore.UndoRules? {
        guard let source = Self.services(file: file) else { return .default }
        do throws(SettingsError) {
            return try source.loadPart(FeedbackSettings.undo)
        } catch {
            throw CommandFailure("\(error)")
        }
    }

    /// Returns for how long histories of devices are kept, as feedback's settings say; nil: none is written.
    ///
    /// - Parameter file: the path; nil for none. Where there is no configuration, the rules are the default ones.
    /// - Throws: `CommandFailure` with every mistake in those settings.
    package static func history(file: String?) throws(CommandFailure) -> DeviceStore.HistoryRules? {
        do throws(SettingsError) {
            return try Self.source(file: file).loadPart(FeedbackSettings.history)
        } catch {
            throw CommandFailure("\(error)")
        }
    }

    /// Reads the configuration.
    ///
    /// - Parameter file: the path; nil for none.
    /// - Throws: `CommandFailure` with every mistake in it, or when there is none.
    package static func dispatcher(file: String?) throws -> Settings<DispatcherSettings> {
        let settings: Settings<DispatcherSettings>
        do {
            settings = try Self.source(file: file).load(DispatcherSettings.self, for: .dispatcher)
        } catch {
            throw CommandFailure("\(error)")
        }
        // The environment may have all of it.
        guard file != nil || !settings.common.apps.isEmpty else {
            throw CommandFailure("there is no configuration: name that of the dispatchers with --config")
        }
        return settings
    }
}
