package import ApusDispatcher
package import ApusService
internal import Foundation

/// How commands come by the configuration of the dispatchers.
package enum ConfigurationAccess {
    /// Reads it.
    ///
    /// - Parameter file: nil: the one that a service would read.
    /// - Throws: `CommandFailure` with every mistake in it.
    package static func dispatcher(file: String?) throws -> Settings<DispatcherSettings> {
        let source = SettingsSource(given: file, environment: ProcessInfo.processInfo.environment)
        do {
            return try source.load(DispatcherSettings.self, for: .dispatcher)
        } catch {
            throw CommandFailure("\(error)")
        }
    }
}
