internal import ApusCore
internal import ApusInstallation
internal import ApusProviders
internal import ApusRedis
internal import ApusService
internal import ApusStreams
internal import Logging

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
    ///
    /// - Parameter copies: the copies of the numbers, which answer while the master that has the original is away, if no route is new, and
    ///   from which numbers are written back that it has lost; nil for none.
    init(
        _ settings: [AppID: AppSettings],
        providers: ProviderList,
        streams: SendStreams,
        copies: InstallationCopies? = nil,
        logger: Logger,
    ) async throws {
        let configured = try providers.all.map { (provider: $0, routes: try $0.routes(of: settings)) }
        let names = configured.flatMap(\.routes).map(\.route.description)
        let known = try await Self.numbers(of: names, streams, copies, logger)
        var apps = settings.mapValues { _ in [Entry]() }
        for (provider, routes) in configured {
            for providerRoute in routes {
                let route = providerRoute.route
                let number =
                    if let number = known[route.description] { number } else {
                        try await streams.routes.number(of: route)
                    }
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
        for (name, number) in known where !own.contains(number) {
            if let route = Route(name) { others[route] = number }
        }
        self.others = others
    }

    /// Returns the numbers of all routes that have one, by name, after those were written back that Redis has lost; those of the copies when
    /// the original is away and they have all names.
    private static func numbers(
        of names: [String],
        _ streams: SendStreams,
        _ copies: InstallationCopies?,
        _ logger: Logger,
    ) async throws -> [String: RouteNumber] {
        let copies = copies.flatMap { $0.tags.isEmpty ? nil : $0 }
        do {
            let patience = copies.map { _ in Installation.originalPatience }
            let all = try await Self.numbers(streams, patience)
            // A route without a number is new, or Redis has lost its number.
            guard let copies, names.contains(where: { all[$0] == nil }) else { return all }
            do {
                // One that cannot be written back has another number by now.
                _ = try await copies.restoreNumbers(in: streams.routes)
            } catch let error as RedisError where error.code == .layoutMismatch {
                // Copies that contradict each other tell nothing.
                logger.warning(
                    "routes without a number get new ones: if Redis has lost theirs, it keeps what waits under these",
                    metadata: ["routes": "\(names.filter { all[$0] == nil }.sorted())", "error": "\(error)"]
                )
                return all
            }
            return try await Self.numbers(streams, patience)
        } catch let error as RedisError {
            guard error.isRetryable || error.isUnanswered, let found = try? await copies?.read(),
                names.allSatisfy({ found.routes[$0] != nil })
            else { throw error }
            return found.routes
        }
    }

    private static func numbers(_ streams: SendStreams, _ patience: Duration?) async throws -> [String: RouteNumber] {
        let all = try await streams.routes.all(patience: patience)
        return Dictionary(all.map { ($0.name, $0.number) }) { $1 }
    }

    /// The numbers of all routes that have one, by name: those that are copied.
    var namedNumbers: [String: RouteNumber] {
        var named = self.others.map { ($0.key.description, $0.value) }
        named += self.entries.map { ($0.route.description, $0.number) }
        return Dictionary(named) { $1 }
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
