internal import ApusCore
internal import ApusProviders
internal import ApusService
internal import Logging
internal import NIOCore
internal import Synchronization

/// Creates the gateways of the configured routes.
///
/// All routes and event loops share one credential per key or account, so that no key signs more tokens than its
/// provider allows.
final class GatewayFactory: Sendable {
    private let configurations: Mutex<[RouteNumber: GatewayConfiguration]>
    private let providers: ProviderList
    private let tools: GatewayTools

    /// Creates a factory without configurations.
    init(providers: ProviderList, tools: GatewayTools) {
        self.configurations = Mutex([:])
        self.providers = providers
        self.tools = tools
    }

    /// Reads the keys and accounts of all routes and uses them from now on.
    ///
    /// - Throws: `SettingsError` that names the unusable file and the reason.
    func adopt(_ apps: [AppID: AppSettings], _ routes: RouteTable) throws {
        for entry in routes.entries {
            guard let source = try self.source(of: entry.route, apps) else { continue }
            self.adopt(try self.configuration(source, of: entry.route), for: entry)
        }
    }

    /// Reads the keys and accounts of all routes, and uses none of them.
    ///
    /// - Throws: `SettingsError` that names every unusable file and the reason.
    func check(_ apps: [AppID: AppSettings]) throws(SettingsError) {
        let issues = self.issues(apps)
        guard issues.isEmpty else { throw SettingsError(issues: issues) }
    }

    /// Reads the keys and accounts of all routes, and uses none of them.
    ///
    /// - Returns: the mistakes, each once though several routes may use the file, in the order of apps and providers.
    func issues(_ apps: [AppID: AppSettings]) -> [SettingsIssue] {
        var issues: [SettingsIssue] = []
        for (app, settings) in apps.sorted(by: { $0.key < $1.key }) {
            for provider in self.providers.all {
                for issue in self.issues(of: app, settings, provider) where !issues.contains(issue) {
                    issues.append(issue)
                }
            }
        }
        return issues
    }

    private func issues(of app: AppID, _ settings: AppSettings, _ provider: any PushProvider) -> [SettingsIssue] {
        let section = "apps.\(app).\(provider.traits.name)"
        let routes: [any ProviderRoute]
        do {
            routes = try provider.routes(of: [app: settings])
        } catch {
            return [SettingsIssue(key: section, place: nil, message: "\(error)")]
        }
        return routes.flatMap { configured -> [SettingsIssue] in
            do {
                guard let source = try self.source(of: configured.route, [app: settings]) else { return [] }
                _ = try self.configuration(source, of: configured.route)
                return []
            } catch let error as SettingsError {
                return error.issues
            } catch {
                return [SettingsIssue(key: section, place: nil, message: "\(error)")]
            }
        }
    }

    /// Returns the source of a route's credential and gateways; nil for a route that is not configured.
    func source(
        of route: Route,
        _ apps: [AppID: AppSettings],
    ) throws(SettingsError) -> (any CredentialSource)? {
        guard let settings = apps[route.app] else { return nil }
        return try self.providers.credentialSource(of: route, settings)
    }

    /// Uses a configuration for a route from now on.
    func adopt(_ configuration: GatewayConfiguration, for entry: RouteTable.Entry) {
        self.configurations.withLock { $0[entry.number] = configuration }
        entry.providerRoute.adopt(configuration)
    }

    /// Returns the fingerprint of a route's configuration; empty for a route that is not configured.
    func configurationFingerprint(of route: RouteNumber) -> String {
        self.source(of: route)?.configurationFingerprint ?? ""
    }

    /// Returns true if requests of this process have shown lately that a route's credential is accepted. Only a provider that cannot be asked
    /// has that recorded.
    func isAccepted(_ route: RouteNumber) -> Bool {
        let addressing = self.configurations.withLock { $0[route]?.gateway.addressing }
        return addressing?.verdicts.isAccepted(now: NIODeadline.now().uptimeNanoseconds) ?? false
    }

    /// Returns the credential source that a route uses now; nil for a route that is not configured.
    func source(of route: RouteNumber) -> (any CredentialSource)? {
        self.configurations.withLock { $0[route]?.source }
    }

    /// Creates the gateways of a route on an event loop. Traps for a route that is not configured.
    func make(_ entry: RouteTable.Entry, on eventLoop: any EventLoop) -> RouteGateways {
        guard let configuration = self.configurations.withLock({ $0[entry.number] }) else {
            preconditionFailure("a gateway for an unknown route")
        }
        return self.make(entry, configuration, on: eventLoop)
    }

    /// Creates the gateways of a route with a configuration that is not in use yet.
    func make(
        _ entry: RouteTable.Entry,
        _ configuration: GatewayConfiguration,
        on eventLoop: any EventLoop,
    ) -> RouteGateways {
        RouteGateways(
            notifications: self.gateway(entry, configuration, on: eventLoop),
            broadcasts: configuration.broadcasts.map { self.gateway(entry, configuration, to: $0, on: eventLoop) },
            configurationFingerprint: configuration.source.configurationFingerprint,
        )
    }

    /// Creates one gateway of a route.
    ///
    /// - Parameter address: the address of the gateway; nil for the one that receives notifications to devices.
    func gateway(
        _ entry: RouteTable.Entry,
        _ configuration: GatewayConfiguration,
        to address: ProviderGatewayConfiguration? = nil,
        on eventLoop: any EventLoop,
    ) -> ProviderGateway {
        var logger = self.tools.logger
        logger[metadataKey: "route"] = "\(entry.route)"
        return ProviderGateway(
            configuration: address ?? configuration.gateway,
            credential: configuration.credential,
            eventLoop: eventLoop,
            tls: configuration.tls,
            clock: self.tools.clock,
            logger: logger,
            threads: self.tools.threads,
        )
    }

    /// Tests whether the provider accepts the credential of a configuration. Returns `unasked` if that cannot be asked.
    ///
    /// - Parameter forgetsRefusal: true to ask even if the provider has refused the credential. One that cannot be asked about stays refused.
    func probe(
        _ entry: RouteTable.Entry,
        _ configuration: GatewayConfiguration,
        forgetsRefusal: Bool = false,
        on eventLoop: any EventLoop,
    ) async throws -> CredentialProbe.Verdict {
        let now = self.tools.clock.now()
        let context = RenderContext(send: try SendID("apus-credential-probe"), publishedAt: now, now: now)
        guard let probe = try entry.providerRoute.credentialProbe(for: configuration, context) else { return .unasked }
        if forgetsRefusal { configuration.credential.restored() }
        return try await eventLoop.flatSubmit {
            CredentialProbe.run(
                probe.message,
                token: probe.token,
                over: self.gateway(entry, configuration, on: eventLoop),
            )
        }.get()
    }

    /// Tests whether the provider accepts a route's current credential now, even if it has refused it before.
    func probe(_ entry: RouteTable.Entry, on eventLoop: any EventLoop) async throws -> CredentialProbe.Verdict {
        guard let configuration = self.configurations.withLock({ $0[entry.number] }) else {
            preconditionFailure("a question about an unknown route")
        }
        return try await self.probe(entry, configuration, forgetsRefusal: true, on: eventLoop)
    }

    /// Returns the kind of the credential that a route uses, and when it expires; nil for a route that is not configured, and for a
    /// credential that does not expire.
    func expiry(of route: RouteNumber) -> (kind: CredentialKind, at: UnixMilliseconds)? {
        guard let configuration = self.configurations.withLock({ $0[route] }),
            let expiresAt = configuration.credential.expiresAt
        else { return nil }
        return (configuration.source.credentialKind, expiresAt)
    }

    /// Creates a configuration. It shares the credential of a known configuration that comes from the same key or
    /// account.
    ///
    /// - Parameter others: further configurations whose credentials may be shared.
    /// - Throws: `SettingsError` that names the unusable file and the reason.
    func configuration(
        _ source: any CredentialSource,
        of route: Route,
        beside others: [GatewayConfiguration] = [],
    ) throws -> GatewayConfiguration {
        let known = others + self.configurations.withLock { Array($0.values) }
        let shared = known.first { other in
            other.gateway.provider == route.provider && other.source.identity == source.identity
        }
        return try source.configuration(of: route, sharing: shared?.credential, self.tools)
    }
}

/// The gateways of a route on one event loop.
struct RouteGateways {
    /// The gateway for notifications to devices. It also sends to channels if those have no address of their own.
    let notifications: ProviderGateway
    /// The gateway for channels; nil if they have no address of their own.
    var broadcasts: ProviderGateway?
    /// The fingerprint of the gateways' configuration.
    var configurationFingerprint = ""
}
