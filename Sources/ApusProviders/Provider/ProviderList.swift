package import ApusCore
package import ApusMessages
package import ApusService
internal import Synchronization

/// Holds the providers that a process knows, in order.
package struct ProviderList: Sendable {
    /// The providers, in order.
    package let all: [any PushProvider]

    /// Creates a list of the given providers.
    package init(_ all: [any PushProvider]) { self.all = all }

    private static let table = Mutex<[any PushProvider]>([])

    /// The installed providers.
    package static var installed: ProviderList { ProviderList(Self.table.withLock { $0 }) }

    /// Makes providers known to this process: to the store and its keys, to configurations and to everything that
    /// sends. Programs call it before anything else; installing a provider again changes nothing.
    package static func install(_ providers: [any PushProvider]) {
        for provider in providers {
            ProviderTraits.install(provider.traits)
            ProviderSection.install(
                ProviderSection(provider.provider, name: provider.traits.name) { provider.readSettings($0, at: $1) }
            )
        }
        Self.table.withLock { table in
            table += providers.filter { provider in !table.contains { $0.provider == provider.provider } }
        }
    }

    /// Returns the provider of a code; nil when this process does not know it.
    package subscript(_ provider: Provider) -> (any PushProvider)? { self.all.first { $0.provider == provider } }

    /// Checks a target whose audience is held by a provider.
    package func check(_ target: Target) throws(Problem) {
        guard let holder = target.holder else { return }
        guard let provider = self[holder] else {
            throw Problem(.unsupported, "target", "names an audience of \(holder.name), which is not known here")
        }
        try provider.check(target)
    }

    /// Reads the files of a route's credential.
    ///
    /// - Returns: the source; nil when the settings do not configure the route.
    package func credentialSource(
        of route: Route,
        _ settings: AppSettings,
    ) throws(SettingsError) -> (any CredentialSource)? {
        guard let section = settings[route.provider], let provider = self[route.provider] else { return nil }
        return try provider.credentialSource(of: route, section)
    }
}
