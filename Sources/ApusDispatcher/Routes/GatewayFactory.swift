internal import ApusCore
internal import ApusProviders
internal import ApusService
internal import ApusTLS
internal import Logging
internal import NIOCore
internal import Synchronization

/// Makes the gateways of the configured routes. One credential per key or account serves all its routes and event loops, so that no
/// key signs more tokens than its provider allows.
final class GatewayFactory: Sendable {
    private let recipes: Mutex<[RouteNumber: GatewayRecipe]>
    private let tokens: SharedTokens
    private let clock: any WallClock
    private let eventLoopGroup: any EventLoopGroup
    private let logger: Logger
    private let minted: @Sendable (Provider, Bool) -> Void

    /// Knows no route yet.
    ///
    /// - Parameter minted: told of each token that was made (true), or asked for in vain.
    init(
        tokens: SharedTokens,
        clock: any WallClock,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
        minted: @escaping @Sendable (Provider, Bool) -> Void = { _, _ in },
    ) {
        self.recipes = Mutex([:])
        self.tokens = tokens
        self.clock = clock
        self.eventLoopGroup = eventLoopGroup
        self.logger = logger
        self.minted = minted
    }

    /// Reads the keys and accounts of all routes.
    ///
    /// - Throws: `SettingsError` naming the file that cannot be used and why.
    func adopt(_ apps: [AppID: AppSettings], _ routes: RouteBook) throws {
        for entry in routes.apps.values.joined() {
            guard let settings = apps[entry.route.app],
                let ingredients = try GatewayIngredients(entry.route, settings)
            else { continue }
            self.adopt(try self.recipe(ingredients, of: entry.route), for: entry.number)
        }
    }

    /// The recipe of a route from now on.
    func adopt(_ recipe: GatewayRecipe, for route: RouteNumber) {
        self.recipes.withLock { $0[route] = recipe }
    }

    /// What a route's gateways are made from; nil for a route that is not configured.
    func ingredients(of route: RouteNumber) -> GatewayIngredients? {
        self.recipes.withLock { $0[route]?.ingredients }
    }

    /// The gateway of a route on an event loop. Traps for a route that is not configured.
    func make(_ entry: RouteBook.Entry, on eventLoop: any EventLoop) -> ProviderGateway {
        guard let recipe = self.recipes.withLock({ $0[entry.number] }) else {
            preconditionFailure("a gateway for an unknown route")
        }
        return self.make(entry, recipe, on: eventLoop)
    }

    /// The gateway of a route by a recipe that is not its own yet.
    func make(_ entry: RouteBook.Entry, _ recipe: GatewayRecipe, on eventLoop: any EventLoop) -> ProviderGateway {
        var logger = self.logger
        logger[metadataKey: "route"] = "\(entry.route)"
        return ProviderGateway(
            configuration: recipe.configuration,
            credential: recipe.credential,
            eventLoop: eventLoop,
            tls: recipe.tls,
            clock: self.clock,
            logger: logger,
        )
    }

    /// Asks the provider whether it takes a recipe's credential.
    func probe(
        _ entry: RouteBook.Entry,
        _ recipe: GatewayRecipe,
        now: UnixMilliseconds,
        on eventLoop: any EventLoop,
    ) async throws -> CredentialProbe.Verdict {
        let message = try entry.probe(now: now)
        return try await eventLoop.flatSubmit {
            CredentialProbe.run(message, over: self.make(entry, recipe, on: eventLoop))
        }.get()
    }

    /// When the first credential of each provider expires.
    func expiries() -> [Provider: UnixMilliseconds] {
        var expiries: [Provider: UnixMilliseconds] = [:]
        for recipe in self.recipes.withLock({ Array($0.values) }) {
            guard let expiresAt = recipe.credential.expiresAt else { continue }
            let provider = recipe.configuration.provider
            expiries[provider] = min(expiresAt, expiries[provider] ?? expiresAt)
        }
        return expiries
    }

    // MARK: Recipes

    /// Makes a recipe. The credential is one that is in use already, if it comes from the same key or account.
    ///
    /// - Throws: `SettingsError` naming the file that cannot be used and why.
    func recipe(
        _ ingredients: GatewayIngredients,
        of route: Route,
        beside others: [GatewayRecipe] = [],
    ) throws -> GatewayRecipe {
        let known = others + self.recipes.withLock { Array($0.values) }
        let shared = known.first { $0.ingredients.identity == ingredients.identity }?.credential
        let key = "apps.\(route.app).\(route.provider.name)"
        switch ingredients {
        case .apns(let settings, let environment, let bytes, _):
            let credential =
                try shared
                ?? Self.using("\(key).key_file", settings.keyFile) {
                    let key = try APNsProviderKey(keyID: settings.keyID, teamID: settings.teamID, pem: bytes)
                    _ = try key.sign(issuedAt: self.clock.now())
                    return APNsCredential(
                        key: key,
                        store: self.tokens,
                        clock: self.clock,
                        logger: self.logger,
                        minted: { [minted] in minted(.apns, $0) }
                    )
                }
            let configuration = ProviderGatewayConfiguration(
                provider: .apns,
                host: settings.host(for: environment),
                port: settings.port(for: environment),
                bulkConnectionsMax: settings.connections,
            )
            let tls = try Self.tls(settings.caFile, "\(key).ca_file")
            return GatewayRecipe(
                configuration: configuration,
                credential: credential,
                tls: tls,
                ingredients: ingredients
            )
        case .fcm(let settings, let bytes, _):
            let tls = try Self.tls(settings.caFile, "\(key).ca_file")
            let credential =
                try shared
                ?? Self.using("\(key).service_account_file", settings.serviceAccountFile) {
                    try self.credential(settings, bytes, tls, key)
                }
            guard let base = HTTPSAddress(settings.baseURL) else {
                throw SettingsError(key: "\(key).base_url", "must be an address that begins with https://")
            }
            let configuration = ProviderGatewayConfiguration(
                provider: .fcm,
                host: base.host,
                port: base.port,
                bulkConnectionsMax: settings.connections,
            )
            return GatewayRecipe(
                configuration: configuration,
                credential: credential,
                tls: tls,
                ingredients: ingredients
            )
        }
    }

    private func credential(
        _ settings: FCMSettings,
        _ bytes: [UInt8],
        _ tls: TLSContext,
        _ key: String,
    ) throws -> any ProviderCredential {
        let account = try ServiceAccount(json: bytes)
        guard let address = HTTPSAddress(settings.tokenURL ?? account.tokenURI) else {
            throw SettingsError(key: "\(key).token_url", "must be an address that begins with https://")
        }
        let source = AccessTokenClient(
            address: address,
            eventLoop: self.eventLoopGroup.next(),
            tls: tls,
            logger: self.logger,
        )
        return FCMCredential(
            account: account,
            source: source,
            clock: self.clock,
            logger: self.logger,
            minted: { [minted] in minted(.fcm, $0) }
        )
    }

    private static func using(
        _ key: String,
        _ path: String,
        _ make: () throws -> any ProviderCredential,
    ) throws -> any ProviderCredential {
        do {
            return try make()
        } catch let error as SettingsError {
            throw error
        } catch {
            throw SettingsError(key: key, "cannot be used: \(path): \(error)")
        }
    }

    private static func tls(_ caFile: String?, _ key: String) throws -> TLSContext {
        do {
            return try TLSContext.client(trust: caFile.map { .file($0) } ?? .system, alpn: ["h2"])
        } catch {
            throw SettingsError(key: key, "cannot be used: \(error)")
        }
    }
}
