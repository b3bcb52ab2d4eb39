package import ApusCore
internal import ApusInstallation
internal import ApusMessages
package import ApusService
package import ApusStreams
package import ApusTerminal

/// The apps that an installation is known to have: those of dispatchers that run or ran, and those of the configuration on this machine.
package struct KnownApps: Sendable {
    private let names: Set<String>

    /// Finds the apps.
    ///
    /// - Parameter configuration: one that cannot be read adds none.
    package init(_ streams: SendStreams, configuration: SettingsSource) async throws {
        let settings = ConfigurationCheck.common(of: configuration)
        let configured = settings.map { Set($0.apps.keys.map(\.text)) } ?? []
        self.names = try await streams.routes.apps().union(configured)
    }

    /// Checks that there is an app of a name. While none at all is known, nothing is refused, and a message says so.
    ///
    /// - Throws: `CommandFailure`.
    package func check(_ app: AppID) throws(CommandFailure) {
        if self.names.isEmpty {
            Console.message(
                "no dispatcher has run here yet: make sure that the services' configuration has the app \(app)"
            )
        }
        do throws(Problem) {
            try SendCommandRules.checkApp(app.text, among: self.names)
        } catch {
            throw CommandFailure("\(error.detail). If it is new, name the configuration that has it with --config")
        }
    }
}
