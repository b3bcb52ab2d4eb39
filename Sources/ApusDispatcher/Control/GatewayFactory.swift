internal import ApusCore
internal import ApusProviders
internal import ApusService
internal import Logging
internal import NIOCore
internal import Synchronization

/// Makes the gateways of the configured routes. One credential per key or account serves all its routes and event loops, so that no
/// key signs more tokens than its provider allows.
final class GatewayFactory: Sendable {
    private let configurations: Mutex<[RouteNumber: GatewayConfiguration]>
    private let providers: ProviderList
    private let tools: GatewayTools

    /// Knows no route yet.
    init(providers: ProviderList, tools: GatewayTools) {
        self.configurations = Mutex([:])
        self.providers = providers
        self.tools = tools
    }

    /// Reads the keys and accounts of all routes.
    ///
    /// - Throws: `SettingsError` naming the file that cannot be used and why.
    func adopt(_ apps: [AppID: AppSettings], _ routes: RouteTable) throws {
        for entry in routes.entries {
            guard let source = try self.source(of: entry.route, apps) else { continue }
            self.adopt(try self.configuration(source, of: entry.route), for: entry)
        }
    }

    /// Reads what a route's gateways are made from; nil for a route that is not configured.
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
        entry.way.adopt(configuration)
    }

    /// A digest of a route's configuration; empty for a route that is not configured.
    func configurationFingerprint(of route: RouteNumber) -> String {
        self.source(of: route)?.configurationFingerprint ?? ""
    }

    /// What a route's gateways are made from; nil for a route that is not configured.
    func source(of route: RouteNumber) -> (any CredentialSource)? {
        self.configurations.withLock { $0[route]?.source }
    }

    /// The gateways of a route on an event loop. Traps for a route that is not configured.
    func make(_ entry: RouteTable.Entry, on eventLoop: any EventLoop) -> RouteGateways {
        guard let configuration = self.configurations.withLock({ $0[entry.number] }) else {
            preconditionFailure("a gateway for an unknown route")
        }
        return self.make(entry, configuration, on: eventLoop)
    }

    /// The gateways of a route by a configuration that is not its own yet.
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

    /// A gateway of a route.
    ///
    /// - Parameter address: where to; nil: where notifications to devices go.
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
        )
    }

    /// Asks the provider whether it takes a configuration's credential.
    func probe(
        _ entry: RouteTable.Entry,
        _ configuration: GatewayConfiguration,
        on eventLoop: any EventLoop,
    ) async throws -> CredentialProbe.Verdict {
        let now = self.tools.clock.now()
        let context = RenderContext(send: try SendID("apus-credential-probe"), publishedAt: now, now: now)
        let probe = try entry.way.credentialProbe(for: configuration, context)
        return try await eventLoop.flatSubmit {
            CredentialProbe.run(
                probe.message,
                token: probe.token,
                over: self.gateway(entry, configuration, on: eventLoop),
            )
        }.get()
    }

    /// Asks the provider whether it takes a route's credential now, whatever it has said before.
    func probe(_ entry: RouteTable.Entry, on eventLoop: any EventLoop) async throws -> CredentialProbe.Verdict {
        guard let configuration = self.configurations.withLock({ $0[entry.number] }) else {
            preconditionFailure("a question about an unknown route")
        }
        configuration.credential.restored()
        return try await self.probe(entry, configuration, on: eventLoop)
    }

    /// When the first credential of each provider and kind expires.
    func expiries() -> [Provider: [CredentialKind: UnixMilliseconds]] {
        var expiries: [Provider: [CredentialKind: UnixMilliseconds]] = [:]
        for configuration in self.configurations.withLock({ Array($0.values) }) {
            guard let expiresAt = configuration.credential.expiresAt else { continue }
            let (provider, kind) = (configuration.gateway.provider, configuration.source.credentialKind)
            expiries[provider, default: [:]][kind] = min(expiresAt, expiries[provider]?[kind] ?? expiresAt)
        }
        return expiries
    }

    /// Makes a configuration. The credential is one that is in use already, if it comes from the same key or account.
    ///
    /// - Parameter others: further configurations whose credentials may be shared.
    /// - Throws: `SettingsError` naming the file that cannot be used and why.
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
    /// To devices, and to channels if those have no address of their own.
    let notifications: ProviderGateway
    /// To channels.
    var broadcasts: ProviderGateway?
    /// A digest of what they are configured with.
    var configurationFingerprint = ""
}
