internal import ApusCore
internal import ApusProviders
internal import ApusService
internal import ApusStreams

/// The routes of all configured apps, with their providers, rates and retry rules.
struct RouteTable: Sendable {
    /// One route.
    struct Entry: Sendable {
        let number: RouteNumber
        /// The provider's side of the route: it renders messages and makes requests.
        let providerRoute: any ProviderRoute
        let rateLimit: RouteRateLimit
        let retryRules: RetryRules

        var route: Route { self.providerRoute.route }
    }

    /// The routes by app, in a fixed order, because a plan's cursor is an index into it.
    let apps: [AppID: [Entry]]
    /// The providers of this process.
    let providers: ProviderList
    /// The routes that have a number and are not in the configuration: removed from it, or another dispatcher's.
    let others: [Route: RouteNumber]

    /// Creates the table and assigns each route its number. A route keeps its number forever.
    init(_ settings: [AppID: AppSettings], providers: ProviderList, streams: SendStreams) async throws {
        var apps = settings.mapValues { _ in [Entry]() }
        for provider in providers.all {
            for providerRoute in try provider.routes(of: settings) {
                let number = try await streams.routes.number(of: providerRoute.route)
                let limiter = streams.rateLimits.limit(of: number, rampMilliseconds: providerRoute.rampMilliseconds)
                apps[providerRoute.route.app, default: []].append(
                    Entry(
                        number: number,
                        providerRoute: providerRoute,
                        rateLimit: RouteRateLimit(limiter: limiter, rate: providerRoute.rate),
                        retryRules: provider.retryRules,
                    )
                )
            }
        }
        self.apps = apps
        self.providers = providers
        let own = Set(apps.values.joined().map(\.number))
        var others: [Route: RouteNumber] = [:]
        for (number, name) in try await streams.routes.all() where !own.contains(number) {
            if let route = Route(name) { others[route] = number }
        }
        self.others = others
    }

    /// The entries of all routes.
    var entries: [Entry] { Array(self.apps.values.joined()) }

    /// The numbers of all routes, sorted.
    var numbers: [RouteNumber] { self.entries.map(\.number).sorted() }

    /// Returns the entry of a route; nil if it is not configured.
    func entry(_ route: Route) -> Entry? { self.apps[route.app]?.first { $0.route == route } }

    /// Returns the route of a number, configured or not; nil: it got its number after this process had started.
    func route(_ number: RouteNumber) -> Route? {
        self.entries.first { $0.number == number }?.route ?? self.others.first { $0.value == number }?.key
    }

    /// The provider under which outcomes are counted that belong to no provider.
    var anyProvider: Provider { self.entries.map(\.route.provider).min() ?? Provider.allCases[0] }
}
