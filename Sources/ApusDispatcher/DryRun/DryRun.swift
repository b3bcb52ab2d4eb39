package import ApusCore
package import ApusInstallation
package import ApusMessages
internal import ApusMetrics
internal import ApusProviders
internal import ApusRedis
package import ApusService
internal import ApusStreams
package import Logging
package import NIOCore

/// Does all of a send but the sending: finds whom it reaches, writes it out for every provider and language, and asks Google.
///
/// It goes the way of a real send, so what it finds is what a send would find at that moment. Nothing is written anywhere.
package struct DryRun: Sendable {
    let routes: RouteBook
    let apps: [AppID: AppSettings]
    private let book: SendBook
    let planner: Planner
    private let clock: any WallClock
    /// How Google is asked; nil: it is not.
    private let google: Google?
    /// Certificates whose topics are not known, because they cannot be read here.
    private let unread: [Problem]

    struct Google: Sendable {
        let factory: GatewayFactory
        let eventLoop: any EventLoop
    }

    /// What stands for a token in a payload that is shown.
    package static let tokenPlaceholder = "<token>"

    /// Dry runs as a dispatcher would send, without asking Google: a command waits for no provider.
    init(routes: RouteBook, book: SendBook, planner: Planner, clock: any WallClock) {
        self.routes = routes
        self.apps = [:]
        self.book = book
        self.planner = planner
        self.clock = clock
        self.google = nil
        self.unread = []
    }

    /// Dry runs with a dispatcher's configuration.
    package init(
        _ settings: Settings<DispatcherSettings>,
        of installation: Installation,
        clock: any WallClock,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
    ) async throws {
        self.apps = settings.common.apps
        self.routes = try await RouteBook(settings.common.apps, streams: installation.streams)
        var catalogue = MetricCatalogue()
        let metrics = DispatcherMetrics(&catalogue)
        let instruments = DispatcherInstruments(metrics: metrics, shared: MetricRegistry(catalogue).shared)
        self.book = SendBook(
            streams: installation.streams,
            store: installation.store,
            routes: self.routes,
            instruments: instruments,
            clock: clock
        )
        self.planner = Planner(
            streams: installation.streams,
            store: installation.store,
            consumer: StreamConsumer.ofThisProcess(group: StreamGroup.dispatcher),
            settings: settings.own,
            instruments: instruments,
            clock: clock,
            logger: logger,
        )
        let factory = GatewayFactory(
            tokens: SharedTokens(client: installation.client),
            clock: clock,
            eventLoopGroup: eventLoopGroup,
            logger: logger,
        )
        self.clock = clock
        self.unread = Self.readCertificates(of: settings.common.apps, self.routes)
        self.google = Google(factory: factory, eventLoop: eventLoopGroup.next())
    }

    /// Looks up which topics certificates serve, as a dispatcher does when it starts. Keys say nothing that the configuration does not.
    ///
    /// - Returns: advice for those that cannot be read: who tries a send out need not be allowed to read what sends.
    private static func readCertificates(of apps: [AppID: AppSettings], _ routes: RouteBook) -> [Problem] {
        var unread: [Problem] = []
        for entry in routes.apps.values.joined() {
            guard let apns = apps[entry.route.app]?.apns, let settings = apps[entry.route.app],
                case .certificate = apns.credential(for: entry.route.environment)
            else { continue }
            do {
                guard case .apns(_, _, let secret, _)? = try GatewayIngredients(entry.route, settings) else { continue }
                routes.scopes[entry.number] = try secret.certificate(topics: apns.topics).scope
            } catch {
                unread.append(
                    Problem(
                        code: "certificate_unread",
                        field: "app",
                        detail: "what \(entry.route) serves is unknown; try as the dispatcher's user: \(error)",
                    )
                )
            }
        }
        return unread
    }

    /// What the command would do.
    ///
    /// - Parameter asksGoogle: whether FCM is asked what it thinks of the message, if there is somebody to ask it with.
    /// - Throws: `Problem`: why the command would be refused.
    package func run(_ command: SendCommand, asksGoogle: Bool) async throws -> DryRunReport {
        let context = try await self.context(of: command)
        var report = DryRunReport()
        report.holder = command.target.holder
        report.renderings = try self.renderings(context)
        var samples: [RouteNumber: WorkUnit] = [:]
        let planned = self.routes.planned(context)
        for number in planned {
            let found = try await self.count(context, PlanShare(route: number, routes: planned))
            report.closed += found.closed
            guard let route = context.routes[number]?.route else { continue }
            report.audiences.append(DryRunReport.Audience(route: route, recipients: found.recipients))
            samples[number] = found.sample
        }
        report.lints = DryRunLints.all(command, report, now: self.clock.now())
        if report.renderings.contains(where: { $0.route.provider == .apns }) { report.lints += self.unread }
        guard asksGoogle, let google else { return report }
        for (number, sample) in samples.sorted(by: { $0.key < $1.key }) {
            guard let route = context.routes[number], route.route.provider == .fcm else { continue }
            report.verdicts += try await self.verdicts(context, route, of: sample, try self.terms(context), google)
        }
        return report
    }

    private func context(of command: SendCommand) async throws -> SendContext {
        var command = command
        command.dryRun = false
        if command.id.isEmpty { command.id = "dry-run" }
        let now = self.clock.now()
        let tag = HashTag(ofKey: StreamKeys.routes)
        switch IntakeDecision(message: try command.encode(), now: now) {
        case .refuse(_, let problem, _, _): throw problem
        case .expired:
            throw Problem(code: "expired", field: "notification.expiry", detail: "it has no worth any more")
        case .direct(let command), .plan(let command, _), .dryRun(let command):
            let context = try await self.book.context(of: command, send: command.id, tag: tag)
            try await ChannelGate(streams: self.planner.streams, routes: self.routes).check(command, now: now)
            return context
        }
    }

    // MARK: Whom

    private func count(
        _ context: SendContext,
        _ share: PlanShare,
    ) async throws -> (recipients: UInt64, closed: [OutcomeCount], sample: WorkUnit?) {
        let isList: Bool
        let source: any RecipientSource
        switch context.command.target {
        // An audience that a provider holds is a list of one.
        case .addresses, .devices, .users, .fcmTopic, .fcmCondition, .apnsChannel:
            isList = true
            source = ListSource(planner: self.planner, context: context, share: share)
        case .topic, .condition, .everyone, .expression:
            isList = false
            source = ScanSource(planner: self.planner, context: context, share: share)
        }
        guard var cursor = PlanCursor(text: "", isList: isList) else { preconditionFailure("a plan has a beginning") }
        var recipients: UInt64 = 0
        var closed: [OutcomeCount] = []
        var sample: WorkUnit?
        while true {
            let find = try await source.next(after: cursor, unitsMax: StreamLimits.unitsPerStepMax)
            recipients += find.units.reduce(0) { $0 + UInt64($1.recipients.count) }
            closed += find.closed
            sample = sample ?? find.units.first
            guard !find.isLast else { return (recipients, closed, sample) }
            cursor = find.next
        }
    }

    // MARK: What

    private func terms(_ context: SendContext) throws -> RenderContext {
        let now = self.clock.now()
        return RenderContext(
            send: try SendID(context.send),
            publishedAt: context.command.publishedAt(now: now),
            notBefore: context.command.notBefore,
            now: now,
        )
    }

    private func renderings(_ context: SendContext) throws -> [DryRunReport.Rendering] {
        let notification = context.command.notification
        let terms = try self.terms(context)
        let locales = [""] + notification.variants.map(\.locale)
        let target = context.command.target
        var renderings: [DryRunReport.Rendering] = []
        for entry in self.routes.apps.values.joined() where context.routes[entry.number] != nil {
            switch entry.kind {
            case .apns(let renderer, _, _):
                if case .apnsChannel(let id, _, let storesLatest) = target {
                    let broadcast = try renderer.render(
                        notification,
                        channel: try APNsChannelID(id),
                        storage: storesLatest ? .latest : .none,
                        context: terms,
                    )
                    renderings.append(
                        DryRunReport.Rendering(
                            route: entry.route,
                            locale: "",
                            headers: broadcast.headers.map { .init(name: $0.name, value: $0.value) },
                            payload: Self.text(broadcast.body),
                            payloadBytes: broadcast.body.bytesMax,
                            payloadBytesMax: RenderedAPNsBroadcast.payloadBytesMax,
                        )
                    )
                    continue
                }
                let messages = try renderer.render(notification, context: terms).variants
                for (locale, message) in zip(locales, messages) {
                    renderings.append(
                        DryRunReport.Rendering(
                            route: entry.route,
                            locale: locale,
                            headers: message.headers.map { .init(name: $0.name, value: $0.value) },
                            payload: Self.text(message.body),
                            payloadBytes: message.body.bytesMax,
                            payloadBytesMax: message.pushType.payloadBytesMax,
                        )
                    )
                }
            case .fcm:
                let addressee = try FCMTarget(target)
                let messages = try FCMRenderer.render(notification, target: addressee, context: terms).variants
                for (locale, message) in zip(locales, messages) {
                    renderings.append(
                        DryRunReport.Rendering(
                            route: entry.route,
                            locale: locale,
                            headers: RenderedFCMMessage.headers.map { .init(name: $0.name, value: $0.value) },
                            payload: Self.text(message.body),
                            payloadBytes: message.payloadBytes,
                            payloadBytesMax: addressee.payloadBytesMax,
                        )
                    )
                }
            }
        }
        return renderings.sorted { ($0.route.description, $0.locale) < ($1.route.description, $1.locale) }
    }

    private static func text(_ body: RenderedBody) -> String {
        String(decoding: body.bytes(token: Self.tokenPlaceholder), as: UTF8.self)
    }
}
