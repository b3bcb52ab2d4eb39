internal import ApusCore
internal import ApusMessages
internal import ApusProviders
internal import ApusService
internal import ApusStreams

/// The routes of all configured apps: what may be said on each, and where it goes.
struct RouteBook: Sendable {
    /// One route.
    struct Entry: Sendable {
        /// What a provider needs to know.
        enum Kind: Sendable {
            /// The renderer knows the app's bundle id. Broadcasts may have an authority of their own.
            case apns(APNsRenderer, authority: String, broadcasts: String)
            /// Messages go to a project's path.
            case fcm(project: String, authority: String, TokenProbe)
        }

        let route: Route
        let number: RouteNumber
        let kind: Kind
        let pace: RoutePace

        /// A request that shows whether a credential is taken, and that no device gets: see ``CredentialProbe``.
        ///
        /// - Parameter scope: what the credential serves at Apple; it is asked about that.
        func probe(_ scope: APNsTopicScope, now: UnixMilliseconds) throws -> PreparedMessage {
            let context = RenderContext(send: try SendID("apus-credential-probe"), publishedAt: now, now: now)
            switch self.kind {
            case .apns(let renderer, let authority, _):
                let notification = CredentialProbe.notification(for: scope, of: renderer.bundleID)
                return try .apns(renderer.render(notification, context: context).base, authority: authority)
            case .fcm(let project, let authority, _):
                let rendered = try FCMRenderer.render(
                    CredentialProbe.notification,
                    target: .token,
                    context: context,
                    validateOnly: true
                )
                return try .fcm(rendered.base, project: project, authority: authority)
            }
        }
    }

    /// By app, in a fixed order: a plan's cursor counts in it.
    let apps: [AppID: [Entry]]

    /// What the routes' credentials serve at Apple; changes with them.
    let scopes: TopicScopes

    /// Every route's number.
    var numbers: [RouteNumber] { self.apps.values.joined().map(\.number).sorted() }

    /// Numbers the routes of the configuration; the same route keeps its number for ever.
    init(_ settings: [AppID: AppSettings], streams: SendStreams) async throws {
        var apps: [AppID: [Entry]] = [:]
        let scopes = TopicScopes()
        let shares = ProjectShare.perMinute(ProjectShare.all(in: settings))
        for (app, settings) in settings {
            var entries: [Entry] = []
            if let apns = settings.apns {
                let renderer = try APNsRenderer(bundleID: apns.topic)
                for environment in ProviderEnvironment.allCases where apns.environments.contains(environment) {
                    let route = Route(app: app, provider: .apns, environment: environment)
                    let number = try await streams.number(of: route)
                    scopes[number] = apns.configuredScope
                    entries.append(
                        Entry(
                            route: route,
                            number: number,
                            kind: .apns(
                                renderer,
                                authority: apns.address(for: environment).authority,
                                broadcasts: (apns.broadcastAddress(for: environment)
                                    ?? apns.address(for: environment)).authority,
                            ),
                            pace: RoutePace(
                                limiter: streams.limiter(of: number, rampMilliseconds: 0),
                                ratePerSecond: apns.ratePerSecond.map { Double($0) },
                            )
                        )
                    )
                }
            }
            if let fcm = settings.fcm {
                let route = Route(app: app, provider: .fcm, environment: .production)
                let number = try await streams.number(of: route)
                let authority = WebAddress(https: fcm.baseURL)?.authority ?? fcm.baseURL
                entries.append(
                    Entry(
                        route: route,
                        number: number,
                        kind: .fcm(
                            project: fcm.projectID,
                            authority: authority,
                            try TokenProbe(project: fcm.projectID, authority: authority),
                        ),
                        pace: RoutePace(
                            limiter: streams.limiter(of: number, rampMilliseconds: fcm.rampMilliseconds),
                            ratePerSecond: shares[app].map { ProjectShare.ratePerSecond(perMinute: $0) },
                        )
                    )
                )
            }
            apps[app] = entries
        }
        self.apps = apps
        self.scopes = scopes
    }

    /// The entry of a route, if it is configured.
    func entry(_ route: Route) -> Entry? { self.apps[route.app]?.first { $0.route == route } }

    /// The routes whose plans find a send's recipients, in order; never none: somebody must count those whom no route leads to.
    func planned(_ context: SendContext) -> [RouteNumber] {
        guard context.routes.isEmpty else { return context.routes.keys.sorted() }
        let own = self.apps.first { $0.key.text == context.command.app }?.value ?? []
        return own.map(\.number).min().map { [$0] } ?? []
    }

    /// Writes a notification out for every route of an app; the first rule it breaks on any of them is the answer.
    func render(
        _ command: SendCommand,
        app: AppID,
        context: RenderContext,
    ) throws(Problem) -> [RouteNumber: RouteContext] {
        guard let entries = self.apps[app] else {
            throw Problem(code: "unknown_app", field: "app", detail: "there is no app \"\(app)\" in the configuration")
        }
        guard !entries.isEmpty else {
            throw Problem(code: "no_route", field: "app", detail: "the app has no provider in the configuration")
        }
        var contexts: [RouteNumber: RouteContext] = [:]
        var forApple: RenderedNotification<RenderedAPNsMessage>?
        var unsupported: Problem?
        for entry in entries where Self.mayReach(command.target, entry.route) {
            do throws(Problem) {
                contexts[entry.number] = try self.context(command, entry, context, &forApple)
            } catch {
                // What one provider knows nothing of may still be for the others.
                guard error.code == RuleBreach.unsupported.rawValue else { throw error }
                unsupported = error
            }
        }
        if contexts.isEmpty, let unsupported { throw unsupported }
        return contexts
    }

    /// - Parameter forApple: what Apple's environments are told alike, once it is written.
    private func context(
        _ command: SendCommand,
        _ entry: Entry,
        _ context: RenderContext,
        _ forApple: inout RenderedNotification<RenderedAPNsMessage>?,
    ) throws(Problem) -> RouteContext {
        let notification = command.notification
        switch entry.kind {
        case .apns(let renderer, let authority, let broadcasts):
            let messages: RenderedNotification<PreparedMessage>
            if case .apnsChannel(let id, _, let storesLatest) = command.target {
                try self.scopes[entry.number].checkChannel(of: renderer.bundleID)
                let broadcast = try renderer.render(
                    notification,
                    channel: try APNsChannelID(id),
                    storage: storesLatest ? .latest : .none,
                    context: context,
                )
                messages = RenderedNotification(base: try .apns(broadcast, authority: broadcasts), others: [])
            } else {
                try self.scopes[entry.number].check(notification.kind, of: renderer.bundleID)
                messages = try Self.messages(notification, renderer, authority, context, &forApple)
            }
            return RouteContext(route: entry.route, number: entry.number, messages: messages)
        case .fcm(let project, let authority, let probe):
            @Sendable func messages(_ target: FCMTarget) throws(Problem) -> RenderedNotification<PreparedMessage> {
                try FCMRenderer.render(notification, target: target, context: context)
                    .map { message throws(Problem) in try .fcm(message, project: project, authority: authority) }
            }
            let target = try FCMTarget(command.target)
            try FCMAPNsRules.checkRecipients(notification, of: command.target)
            let written = try messages(target)
            return RouteContext(
                route: entry.route,
                number: entry.number,
                messages: written,
                probe: target.isAudience ? nil : probe,
                // The token counts for no rule: what could be written for one kind can be for the other.
                forInstallations: { (try? messages(.installation)) ?? written },
            )
        }
    }

    private static func messages(
        _ notification: Notification,
        _ renderer: APNsRenderer,
        _ authority: String,
        _ context: RenderContext,
        _ forApple: inout RenderedNotification<RenderedAPNsMessage>?,
    ) throws(Problem) -> RenderedNotification<PreparedMessage> {
        let written: RenderedNotification<RenderedAPNsMessage>
        if let forApple {
            written = forApple
        } else {
            written = try renderer.render(notification, context: context)
            forApple = written
        }
        return try written.map { message throws(Problem) in try .apns(message, authority: authority) }
    }

    /// Whether a target can have recipients on a route: what cannot be reached need not be written out.
    private static func mayReach(_ target: Target, _ route: Route) -> Bool {
        switch target {
        case .addresses(let addresses):
            addresses.contains { $0.provider == route.provider && $0.environment == route.environment }
        case .everyone(let providers): providers.isEmpty || providers.contains(route.provider)
        case .devices, .users, .topic, .condition, .expression: true
        case .fcmTopic, .fcmCondition: route.provider == .fcm
        case .apnsChannel(_, let environment, _): route.provider == .apns && route.environment == environment
        }
    }
}
