internal import ApusCore
internal import ApusMetrics
internal import ApusProviders
internal import ApusService
internal import ApusStreams
internal import Logging
internal import NIOCore

/// Replaces keys and accounts while the dispatcher sends.
///
/// It reads a changed file, signs with its key, and asks the provider, if it can be asked, whether it accepts the credential. Only then do
/// new connections replace the old ones, which close after their last answer, and a route that was stopped resumes. A
/// credential that fails any of these steps changes nothing but the log and a metric.
struct CredentialReloader: Sendable {
    let factory: GatewayFactory
    let routes: RouteTable
    /// The event loop on which providers are asked.
    let eventLoop: any EventLoop
    /// Replaces the gateways of a route on every event loop.
    let exchange: @Sendable (RouteTable.Entry, GatewayConfiguration) async throws -> Void
    let watch: FaultWatch
    /// Begins anew with other routes, or with settings of a route that its gateways cannot change.
    let renew: @Sendable (_ reasons: [String]) -> Bool
    let metrics: DispatcherMetrics
    let common: CommonMetrics
    let shared: SharedMetrics
    let logger: Logger

    /// Applies configuration updates until they end.
    func follow<Own>(_ updates: AsyncStream<Settings<Own>>) async {
        for await settings in updates { await self.take(settings.common.apps) }
    }

    /// Applies the changes to the configuration of known routes.
    func take(_ apps: [AppID: AppSettings]) async {
        var isWhole = true
        var fixed: [String] = []
        var made: [GatewayConfiguration] = []
        for entry in self.routes.entries {
            do {
                guard let configuration = try self.changed(entry, apps, beside: made, fixed: &fixed) else { continue }
                made.append(configuration)
                let verdict = try await self.factory.probe(entry, configuration, on: self.eventLoop)
                self.shared.add(to: self.metrics.credentialReloads[entry.route.provider, ReloadLabel(verdict)])
                switch verdict {
                // A key is signed with when it is read: that is all that can be tested where nobody can be asked.
                case .taken, .unasked: try await self.adopt(entry, configuration)
                case .refused(let word):
                    isWhole = false
                    self.refuse(entry, "the provider refuses it: \(word)")
                case .unanswered(let word):
                    isWhole = false
                    self.refuse(entry, "the provider could not be asked (\(word)); SIGHUP tries again")
                }
            } catch {
                isWhole = false
                self.shared.add(to: self.metrics.credentialReloads[entry.route.provider, .unusable])
                self.refuse(entry, "\(error)")
            }
        }
        if !isWhole { self.shared.set(self.common.configurationReloadSuccessful, to: 0) }
        self.renew(fixed, apps, isWhole: isWhole)
    }

    /// Begins anew if routes were added or removed, or if something of a route has changed that its gateways cannot take over, unless a
    /// credential of the configuration is no good: it would be used from then on.
    private func renew(_ fixed: [String], _ apps: [AppID: AppSettings], isWhole: Bool) {
        let known = Set(self.routes.entries.map(\.route))
        let configured = self.routes.providers.all.flatMap { ((try? $0.routes(of: apps)) ?? []).map(\.route) }
        let reasons = fixed + known.symmetricDifference(configured).map(\.description).sorted()
        guard !reasons.isEmpty else { return }
        let routes: Logger.Metadata = ["routes": .array(reasons.map { .string($0) })]
        guard isWhole else {
            self.logger.warning("changed routes are used once every credential is good", metadata: routes)
            return
        }
        do {
            try self.factory.check(apps)
        } catch {
            self.shared.set(self.common.configurationReloadSuccessful, to: 0)
            self.logger.error(
                "changed routes cannot be used",
                metadata: routes.merging(["error": "\(error)"]) { _, new in new }
            )
            return
        }
        guard !self.renew(reasons) else { return }
        self.logger.warning("changed routes take effect at the next start", metadata: routes)
    }

    /// Returns the new configuration of a route; nil if it is unchanged.
    private func changed(
        _ entry: RouteTable.Entry,
        _ apps: [AppID: AppSettings],
        beside made: [GatewayConfiguration],
        fixed: inout [String],
    ) throws -> GatewayConfiguration? {
        guard var source = try self.factory.source(of: entry.route, apps),
            let known = self.factory.source(of: entry.number), !source.isEqual(to: known)
        else { return nil }
        if source.fixedPart != known.fixedPart {
            fixed.append(entry.route.description)
            source = source.keepingFixedPart(ofAny: known)
            guard !source.isEqual(to: known) else { return nil }
        }
        return try self.factory.configuration(source, of: entry.route, beside: made)
    }

    private func adopt(_ entry: RouteTable.Entry, _ configuration: GatewayConfiguration) async throws {
        self.factory.adopt(configuration, for: entry)
        try await self.exchange(entry, configuration)
        self.logger.notice("new credential in use", metadata: ["route": "\(entry.route)"])
        do {
            try await self.watch.letGoOn(entry)
        } catch {
            self.logger.warning(
                "the route may still be stopped by its previous credential: apus lag, apus resume --route \(entry.route)",
                metadata: ["error": "\(error)"]
            )
        }
    }

    private func refuse(_ entry: RouteTable.Entry, _ reason: String) {
        self.logger.error(
            "credential refused, the old one stays",
            metadata: ["route": "\(entry.route)", "reason": "\(reason)"]
        )
    }
}

extension ReloadLabel {
    fileprivate init(_ verdict: CredentialProbe.Verdict) {
        self =
            switch verdict {
            case .taken, .unasked: .taken
            case .refused: .refused
            case .unanswered: .unanswered
            }
    }
}
