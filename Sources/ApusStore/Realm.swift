package import ApusCore

/// A provider together with its environment: the segment of a store key that separates the environments of a provider.
///
/// A realm of an app is exactly one `Route`, so postings, plans and work units never mix environments. A device that
/// changes its environment or provider moves from one realm to another.
package struct Realm: CaseIterable, Sendable, Hashable {
    /// The provider.
    package let provider: Provider
    /// The environment.
    package let environment: ProviderEnvironment

    /// Creates the realm of a provider and environment; a provider that does not know the environment has one realm.
    package init(_ provider: Provider, _ environment: ProviderEnvironment) {
        let known = provider.traits.environments
        self.provider = provider
        self.environment = known.contains(environment) ? environment : known[0]
    }

    private init(_ traits: ProviderTraits, _ environment: ProviderEnvironment) {
        self.provider = traits.provider
        self.environment = environment
    }

    /// Creates the realm of a route.
    package init(_ route: Route) { self.init(route.provider, route.environment) }

    /// The realms of all providers that this process knows.
    package static var allCases: [Realm] {
        var realms: [Realm] = []
        for traits in ProviderTraits.known {
            for environment in traits.environments { realms.append(Realm(traits, environment)) }
        }
        return realms
    }

    /// The name in keys.
    package var name: String {
        switch self.environment {
        case .production: self.provider.name
        case .sandbox: "\(self.provider.name)-sandbox"
        }
    }

    /// The number that identifies it in a digest of a record, which never changes.
    var digestByte: UInt8 {
        switch self.provider.rawValue {
        case 1: self.environment == .production ? 0 : 1
        case let code: self.environment == .production ? code : code | 0x80
        }
    }

    /// Returns the route of an app through this realm.
    package func route(of app: AppID) -> Route {
        Route(app: app, provider: self.provider, environment: self.environment)
    }
}
