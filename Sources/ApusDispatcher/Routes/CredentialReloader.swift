internal import ApusCore
internal import ApusMetrics
internal import ApusProviders
internal import ApusService
internal import ApusStreams
internal import Logging
internal import NIOCore

/// Takes new keys and accounts into use while the dispatcher sends.
///
/// A file is read, its key signs, and the provider is asked whether it takes it: only then do new connections take the place of the
/// old ones, which end when they owe no answer any more, and a route that was stopped for the old ones goes on. A key that fails any of this changes nothing but the log and a metric.
struct CredentialReloader: Sendable {
    let factory: GatewayFactory
    let routes: RouteBook
    let workers: [WorkerHandle]
    let watch: FaultWatch
    let metrics: DispatcherMetrics
    let common: CommonMetrics
    let shared: SharedMetrics
    let clock: any WallClock
    let logger: Logger

    /// Follows the configuration until the updates end.
    func follow(_ updates: AsyncStream<Settings<DispatcherSettings>>) async {
        for await settings in updates { await self.take(settings.common.apps) }
    }

    /// Takes over what changed in the configuration of the known routes.
    func take(_ apps: [AppID: AppSettings]) async {
        var isWhole = true
        var made: [GatewayRecipe] = []
        for entry in self.routes.apps.values.joined() {
            do {
                guard let recipe = try self.changed(entry, apps, beside: made) else { continue }
                made.append(recipe)
                let eventLoop = self.workers[0].eventLoop
                let verdict = try await self.factory.probe(entry, recipe, now: self.clock.now(), on: eventLoop)
                self.shared.add(to: self.metrics.credentialReloads[entry.route.provider, ReloadLabel(verdict)])
                switch verdict {
                case .taken: try await self.exchange(entry, recipe)
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
        self.warnOfOthers(apps)
        if !isWhole { self.shared.set(self.common.configurationReloadSuccessful, to: 0) }
    }

    /// The new recipe of a route; nil when it is as it was.
    private func changed(
        _ entry: RouteBook.Entry,
        _ apps: [AppID: AppSettings],
        beside made: [GatewayRecipe],
    ) throws -> GatewayRecipe? {
        guard let settings = apps[entry.route.app],
            var ingredients = try GatewayIngredients(entry.route, settings),
            let known = self.factory.ingredients(of: entry.number), ingredients != known
        else { return nil }
        if ingredients.fixedPart != known.fixedPart {
            self.logger.warning(
                "bundle id, project, address and rate take effect at the next start",
                metadata: ["route": "\(entry.route)"]
            )
            ingredients.keepFixedPart(of: known)
            guard ingredients != known else { return nil }
        }
        return try self.factory.recipe(ingredients, of: entry.route, beside: made)
    }

    private func exchange(_ entry: RouteBook.Entry, _ recipe: GatewayRecipe) async throws {
        self.factory.adopt(recipe, for: entry.number)
        self.routes.scopes[entry.number] = recipe.scope
        let factory = self.factory
        for worker in self.workers {
            let eventLoop = worker.eventLoop
            try await worker.onLoop { $0.exchange(factory.make(entry, recipe, on: eventLoop), for: entry.number) }
        }
        self.logger.notice("new credential in use", metadata: ["route": "\(entry.route)"])
        do {
            try await self.watch.letGoOn(entry)
        } catch {
            self.logger.warning(
                "the route may be stopped still for the credential before: apus lag, apus resume --route \(entry.route)",
                metadata: ["error": "\(error)"]
            )
        }
    }

    private func refuse(_ entry: RouteBook.Entry, _ reason: String) {
        self.logger.error(
            "credential refused, the old one stays",
            metadata: ["route": "\(entry.route)", "reason": "\(reason)"]
        )
    }

    /// Routes that come or go do so at the next start: plans and streams of those that run count on them.
    private func warnOfOthers(_ apps: [AppID: AppSettings]) {
        let known = Set(self.routes.apps.values.joined().map(\.route))
        let configured = Set(apps.flatMap { $0.value.routes(of: $0.key) })
        let others = known.symmetricDifference(configured).map(\.description).sorted()
        guard !others.isEmpty else { return }
        self.logger.warning(
            "routes that were added or removed take effect at the next start",
            metadata: ["routes": .array(others.map { .string($0) })]
        )
    }
}

extension AppSettings {
    /// The ways out that it configures.
    fileprivate func routes(of app: AppID) -> [Route] {
        let apple = (self.apns?.environments ?? []).map { Route(app: app, provider: .apns, environment: $0) }
        return apple + (self.fcm == nil ? [] : [Route(app: app, provider: .fcm, environment: .production)])
    }
}

extension ReloadLabel {
    fileprivate init(_ verdict: CredentialProbe.Verdict) {
        self =
            switch verdict {
            case .taken: .taken
            case .refused: .refused
            case .unanswered: .unanswered
            }
    }
}
