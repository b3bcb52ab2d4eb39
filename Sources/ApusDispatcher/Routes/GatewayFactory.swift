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
            let recipe = try self.recipe(ingredients, of: entry.route)
            self.adopt(recipe, for: entry.number)
            routes.scopes[entry.number] = recipe.scope
        }
    }

    /// The recipe of a route from now on.
    func adopt(_ recipe: GatewayRecipe, for route: RouteNumber) {
        self.recipes.withLock { $0[route] = recipe }
    }

    /// A digest of what a route is set up with; empty for a route that is not configured.
    func setUp(of route: RouteNumber) -> String { self.ingredients(of: route)?.setUp ?? "" }

    /// What a route's gateways are made from; nil for a route that is not configured.
    func ingredients(of route: RouteNumber) -> GatewayIngredients? {
        self.recipes.withLock { $0[route]?.ingredients }
    }

    /// The gateways of a route on an event loop. Traps for a route that is not configured.
    func make(_ entry: RouteBook.Entry, on eventLoop: any EventLoop) -> RouteGateways {
        guard let recipe = self.recipes.withLock({ $0[entry.number] }) else {
            preconditionFailure("a gateway for an unknown route")
        }
        return self.make(entry, recipe, on: eventLoop)
    }

    /// The gateways of a route by a recipe that is not its own yet.
    func make(_ entry: RouteBook.Entry, _ recipe: GatewayRecipe, on eventLoop: any EventLoop) -> RouteGateways {
        RouteGateways(
            notifications: self.gateway(entry, recipe, recipe.configuration, on: eventLoop),
            broadcasts: recipe.broadcasts.map { self.gateway(entry, recipe, $0, on: eventLoop) },
            setUp: recipe.ingredients.setUp,
        )
    }

    /// A gateway for notifications to devices alone.
    func gateway(_ entry: RouteBook.Entry, _ recipe: GatewayRecipe, on eventLoop: any EventLoop) -> ProviderGateway {
        self.gateway(entry, recipe, recipe.configuration, on: eventLoop)
    }

    private func gateway(
        _ entry: RouteBook.Entry,
        _ recipe: GatewayRecipe,
        _ configuration: ProviderGatewayConfiguration,
        on eventLoop: any EventLoop,
    ) -> ProviderGateway {
        var logger = self.logger
        logger[metadataKey: "route"] = "\(entry.route)"
        return ProviderGateway(
            configuration: configuration,
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
        let message = try entry.probe(recipe.scope, now: now)
        return try await eventLoop.flatSubmit {
            CredentialProbe.run(message, over: self.gateway(entry, recipe, on: eventLoop))
        }.get()
    }

    /// Asks the provider whether it takes a route's credential now, whatever it has said before.
    func probe(
        _ entry: RouteBook.Entry,
        now: UnixMilliseconds,
        on eventLoop: any EventLoop,
    ) async throws -> CredentialProbe.Verdict {
        guard let recipe = self.recipes.withLock({ $0[entry.number] }) else {
            preconditionFailure("a question about an unknown route")
        }
        recipe.credential.mended()
        return try await self.probe(entry, recipe, now: now, on: eventLoop)
    }

    /// When the first credential of each kind expires.
    func expiries() -> [CredentialKind: UnixMilliseconds] {
        var expiries: [CredentialKind: UnixMilliseconds] = [:]
        for recipe in self.recipes.withLock({ Array($0.values) }) {
            guard let expiresAt = recipe.credential.expiresAt else { continue }
            let kind = recipe.ingredients.credentialKind
            expiries[kind] = min(expiresAt, expiries[kind] ?? expiresAt)
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
        case .apns(let settings, let environment, let secret, _):
            let proof = try self.proof(settings, environment, secret, shared, key)
            var configuration = ProviderGatewayConfiguration(
                provider: .apns,
                host: settings.host(for: environment),
                port: settings.port(for: environment),
                bulkConnectionsMax: settings.connections,
            )
            // APNs allows one stream until a request with a valid token has come
            // (https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns). A certificate that it
            // refuses ends the connection after the handshake (TLS 1.3): then one request is lost, not all that fit.
            configuration.startsWithOneStream = true
            let broadcasts = settings.broadcastAddress(for: environment).map { address in
                var broadcasts = configuration
                (broadcasts.host, broadcasts.port) = (address.host, address.port)
                // One request reaches all of an audience.
                broadcasts.bulkConnectionsMax = broadcasts.bulkConnectionsMin
                return broadcasts
            }
            return GatewayRecipe(
                configuration: configuration,
                broadcasts: broadcasts,
                credential: proof.credential,
                tls: try Self.tls(settings.caFile, "\(key).ca_file", proof.identity),
                ingredients: ingredients,
                scope: proof.scope,
            )
        case .fcm(let settings, let bytes, _):
            let tls = try Self.tls(settings.caFile, "\(key).ca_file")
            let credential =
                try shared
                ?? Self.using("\(key).service_account_file", settings.serviceAccountFile) {
                    try self.credential(settings, bytes, tls, key)
                }
            guard let base = WebAddress(https: settings.baseURL) else {
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
                ingredients: ingredients,
                scope: .team,
            )
        }
    }

    /// With what a route shows Apple who sends.
    private struct AppleProof {
        let credential: any ProviderCredential
        /// Shown when connecting; nil: requests carry a token.
        var identity: TLSIdentity?
        let scope: APNsTopicScope
    }

    private func proof(
        _ settings: APNsSettings,
        _ environment: ProviderEnvironment,
        _ secret: AppleSecret,
        _ shared: (any ProviderCredential)?,
        _ key: String,
    ) throws -> AppleProof {
        switch settings.credential(for: environment) {
        case .key(let teamID, let keyID, let file):
            let credential =
                try shared
                ?? Self.using("\(key).key_file", file) {
                    let key = try APNsProviderKey(keyID: keyID, teamID: teamID, pem: secret.bytes)
                    _ = try key.sign(issuedAt: self.clock.now())
                    return APNsCredential(
                        key: key,
                        store: self.tokens,
                        clock: self.clock,
                        logger: self.logger,
                        minted: { [minted] in minted(.apns, $0) }
                    )
                }
            return AppleProof(credential: credential, scope: settings.topics.map { .bundleIDs($0) } ?? .team)
        case .certificate(let file, _, _):
            return try Self.using("\(key).certificate_file", file) {
                let certificate = try secret.certificate(topics: settings.topics)
                try certificate.check(bundleID: settings.topic, environment: environment)
                return AppleProof(
                    credential: shared ?? APNsCertificateCredential(certificate, clock: self.clock),
                    identity: certificate.identity,
                    scope: certificate.scope,
                )
            }
        }
    }

    private func credential(
        _ settings: FCMSettings,
        _ bytes: [UInt8],
        _ tls: TLSContext,
        _ key: String,
    ) throws -> any ProviderCredential {
        let account = try ServiceAccount(json: bytes)
        guard let address = WebAddress(https: settings.tokenURL ?? account.tokenURI) else {
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

    private static func using<Made>(
        _ key: String,
        _ path: String,
        _ make: () throws -> Made,
    ) throws -> Made {
        do {
            return try make()
        } catch let error as SettingsError {
            throw error
        } catch {
            throw SettingsError(key: key, "cannot be used: \(path): \(error)")
        }
    }

    private static func tls(
        _ caFile: String?,
        _ key: String,
        _ identity: TLSIdentity? = nil,
    ) throws -> TLSContext {
        do {
            let trust = caFile.map { TLSTrust.file($0) } ?? .system
            return try TLSContext.client(trust: trust, certificate: identity, alpn: ["h2"])
        } catch {
            throw SettingsError(key: key, "cannot be used: \(error)")
        }
    }
}
