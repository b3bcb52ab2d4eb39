internal import ApusCore
internal import ApusProviders
internal import ApusService
internal import ApusStreams
internal import ApusTLS
internal import Foundation
internal import Logging
internal import NIOCore

/// Makes the gateways of the configured routes; one credential per key or account serves all event loops.
final class GatewayFactory: Sendable {
    /// What the gateways of a route have in common.
    private struct Recipe: Sendable {
        var configuration: ProviderGatewayConfiguration
        var credential: any ProviderCredential
        var tls: TLSContext
    }

    private let recipes: [RouteNumber: Recipe]
    private let clock: any WallClock
    private let logger: Logger

    /// Reads keys and accounts.
    ///
    /// - Throws: `SettingsError` naming the file that cannot be used and why.
    init(
        apps: [AppID: AppSettings],
        routes: RouteBook,
        tokens: SharedTokens,
        clock: any WallClock,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
    ) throws {
        var recipes: [RouteNumber: Recipe] = [:]
        for (app, settings) in apps {
            if let apns = settings.apns {
                let key = try Self.read("apps.\(app).apns.key_file", apns.keyFile) {
                    try APNsProviderKey(keyID: apns.keyID, teamID: apns.teamID, pem: $0)
                }
                let credential = APNsCredential(key: key, store: tokens, clock: clock, logger: logger)
                let tls = try Self.tls(apns.caFile, "apps.\(app).apns.ca_file")
                for environment in apns.environments {
                    let route = Route(app: app, provider: .apns, environment: environment)
                    guard let number = routes.entry(route)?.number else { continue }
                    let configuration = ProviderGatewayConfiguration(
                        provider: .apns,
                        host: apns.host(for: environment),
                        port: apns.port,
                        bulkConnectionsMax: apns.connections,
                    )
                    recipes[number] = Recipe(configuration: configuration, credential: credential, tls: tls)
                }
            }
            if let fcm = settings.fcm {
                let route = Route(app: app, provider: .fcm, environment: .production)
                guard let number = routes.entry(route)?.number else { continue }
                let key = "apps.\(app).fcm.service_account_file"
                let account = try Self.read(key, fcm.serviceAccountFile) { try ServiceAccount(json: $0) }
                let tls = try Self.tls(fcm.caFile, "apps.\(app).fcm.ca_file")
                guard let base = HTTPSAddress(fcm.baseURL),
                    let tokenURL = HTTPSAddress(fcm.tokenURL ?? account.tokenURI)
                else {
                    throw SettingsError(key: "apps.\(app).fcm.base_url", "must be an address that begins with https://")
                }
                let source = AccessTokenClient(
                    address: tokenURL,
                    eventLoop: eventLoopGroup.next(),
                    tls: tls,
                    logger: logger,
                )
                let configuration = ProviderGatewayConfiguration(
                    provider: .fcm,
                    host: base.host,
                    port: base.port,
                    bulkConnectionsMax: fcm.connections,
                )
                let credential = FCMCredential(account: account, source: source, clock: clock, logger: logger)
                recipes[number] = Recipe(configuration: configuration, credential: credential, tls: tls)
            }
        }
        self.recipes = recipes
        self.clock = clock
        self.logger = logger
    }

    /// The gateway of a route on an event loop. Traps for a route that is not configured.
    func make(_ entry: RouteBook.Entry, on eventLoop: any EventLoop) -> ProviderGateway {
        guard let recipe = self.recipes[entry.number] else { preconditionFailure("a gateway for an unknown route") }
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

    private static func read<Value>(_ key: String, _ path: String, _ parse: ([UInt8]) throws -> Value) throws -> Value {
        do {
            return try parse(Array(try Data(contentsOf: URL(filePath: path))))
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

extension SettingsError {
    /// One mistake that shows only when a file is used.
    fileprivate init(key: String, _ message: String) {
        self.init(issues: [SettingsIssue(key: key, place: nil, message: message)])
    }
}
