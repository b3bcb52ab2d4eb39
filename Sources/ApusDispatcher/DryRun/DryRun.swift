package import ApusCore
package import ApusInstallation
package import ApusMessages
internal import ApusMetrics
package import ApusProviders
internal import ApusRedis
package import ApusService
internal import ApusStreams
package import Logging
package import NIOCore

/// Does all of a send but the sending: finds whom it reaches, writes it out for every provider and language, and asks the providers that
/// can be asked.
///
/// It goes the way of a real send, so what it finds is what a send would find at that moment. Nothing is written anywhere.
package struct DryRun: Sendable {
    let routes: RouteTable
    let apps: [AppID: AppSettings]
    private let book: SendContextCache
    let planner: Planner
    private let clock: any WallClock
    /// How providers are asked; nil: they are not.
    private let asking: Asking?
    /// Credentials of which it is not known what they serve, because they cannot be read here; by provider.
    private let unread: [Provider: [Problem]]

    private struct Asking: Sendable {
        let factory: GatewayFactory
        let eventLoop: any EventLoop
    }

    /// Dry runs as a dispatcher would send, without asking anybody: a command waits for no provider.
    init(routes: RouteTable, book: SendContextCache, planner: Planner, clock: any WallClock) {
        self.routes = routes
        self.apps = [:]
        self.book = book
        self.planner = planner
        self.clock = clock
        self.asking = nil
        self.unread = [:]
    }

    /// Dry runs with the apps of a dispatcher's configuration.
    package init(
        _ apps: [AppID: AppSettings],
        of installation: Installation,
        clock: any WallClock,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
        providers: ProviderList = .installed,
    ) async throws {
        self.apps = apps
        self.routes = try await RouteTable(apps, providers: providers, streams: installation.streams)
        var catalogue = MetricCatalogue()
        let metrics = DispatcherMetrics(&catalogue)
        let instruments = DispatcherInstruments(metrics: metrics, shared: MetricRegistry(catalogue).shared)
        self.book = SendContextCache(
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
            instruments: instruments,
            clock: clock,
            logger: logger,
        )
        let factory = GatewayFactory(
            providers: providers,
            tools: GatewayTools(
                tokens: SharedTokens(client: installation.client),
                clock: clock,
                eventLoopGroup: eventLoopGroup,
                logger: logger,
            ),
        )
        self.clock = clock
        self.unread = Self.learnScopes(of: apps, self.routes)
        self.asking = Asking(factory: factory, eventLoop: eventLoopGroup.next())
    }

    /// Learns what credentials serve, as a dispatcher does when it starts.
    ///
    /// - Returns: advice for those that cannot be read: who tries a send out need not be allowed to read what sends.
    private static func learnScopes(of apps: [AppID: AppSettings], _ routes: RouteTable) -> [Provider: [Problem]] {
        var unread: [Provider: [Problem]] = [:]
        for entry in routes.entries {
            guard let settings = apps[entry.route.app]?[entry.route.provider] else { continue }
            do {
                try entry.way.learnScope(settings)
            } catch {
                unread[entry.route.provider, default: []].append(
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
    /// - Parameter asksProviders: whether providers that check messages without delivering them are asked, if there is somebody to ask
    ///   them with.
    /// - Throws: `Problem`: why the command would be refused.
    package func run(_ command: SendCommand, asksProviders: Bool) async throws -> DryRunReport {
        let context = try await self.context(of: command)
        let terms = try self.terms(context)
        let entries = self.routes.entries.filter { context.routes[$0.number] != nil }
        var report = DryRunReport()
        report.holder = command.target.holder
        report.renderings = try entries.flatMap { try $0.way.preview(context.command, terms) }
            .sorted { ($0.route.description, $0.locale) < ($1.route.description, $1.locale) }
        var samples: [RouteNumber: WorkUnit] = [:]
        let planned = self.routes.planned(context)
        for number in planned {
            let found = try await self.count(context, PlanShare(route: number, routes: planned))
            report.closed += found.closed
            guard let route = context.routes[number]?.route else { continue }
            report.audiences.append(DryRunReport.Audience(route: route, recipients: found.recipients))
            samples[number] = found.sample
        }
        report.lints = DryRunLints.all(command, report, self.routes.providers, now: self.clock.now())
        for provider in Set(report.renderings.map(\.route.provider)).sorted() {
            report.lints += self.unread[provider] ?? []
        }
        guard asksProviders, let asking else { return report }
        for entry in entries.sorted(by: { $0.number < $1.number }) {
            guard let sample = samples[entry.number] else { continue }
            report.verdicts += try await self.verdicts(context, entry, of: sample, terms, asking)
        }
        return report
    }

    private func context(of command: SendCommand) async throws -> SendContext {
        var command = command
        command.dryRun = false
        if command.id.isEmpty { command.id = "dry-run" }
        let now = self.clock.now()
        let tag = HashTag(ofKey: StreamKeys.routes)
        switch IntakeDecision(message: try command.encode(), now: now, providers: self.routes.providers) {
        case .refuse(_, let problem, _): throw problem
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
        case .topic, .condition, .everyone, .expression:
            isList = false
            source = ScanSource(planner: self.planner, context: context, share: share)
        // An audience that a provider holds is a list of one.
        default:
            isList = true
            source = ListSource(planner: self.planner, context: context, share: share)
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

    // MARK: What the provider says

    /// Tokens that a message is tried with: what is said of a token says nothing of the message.
    private static let samplesMax = 3

    /// What the provider says of a route's message in every language, without delivering it; nothing where it cannot be asked.
    ///
    /// - Parameter unit: where the tokens to try it with are found; none of them can be sent to: nothing is asked.
    private func verdicts(
        _ context: SendContext,
        _ entry: RouteTable.Entry,
        of unit: WorkUnit,
        _ terms: RenderContext,
        _ asking: Asking,
    ) async throws -> [DryRunReport.Verdict] {
        guard let route = context.routes[entry.number],
            let forTokens = try entry.way.validation(of: context.command, terms, toInstallations: false),
            let source = try asking.factory.source(of: entry.route, self.apps)
        else { return [] }
        let table = try await RecipientLoader(store: self.planner.store).table(unit, context, route)
        let samples = table.rows.indices.filter { table.rows[$0].verdict == .open }.prefix(Self.samplesMax)
        guard !samples.isEmpty else { return [] }
        let hasInstallation = samples.contains { table.rows[$0].isInstallation }
        let forInstallations =
            hasInstallation ? try entry.way.validation(of: context.command, terms, toInstallations: true) : nil
        let configuration = try asking.factory.configuration(source, of: entry.route)
        asking.factory.adopt(configuration, for: entry)

        var verdicts: [DryRunReport.Verdict] = []
        // The first that is not known to be dead.
        var first = 0
        for (index, locale) in ([""] + context.command.notification.variants.map(\.locale)).enumerated() {
            var answers: [(outcome: DeliveryOutcome, reason: String)] = []
            var word: DryRunReport.Verdict.Word?
            while word == nil, first + answers.count < samples.count {
                let row = samples[samples.startIndex + first + answers.count]
                let messages = table.rows[row].isInstallation ? forInstallations ?? forTokens : forTokens
                let message = messages.variants[index]
                let token = Array(table.token(row))
                let answer = try await asking.eventLoop.flatSubmit {
                    SingleRequest.send(
                        message,
                        token: token,
                        over: asking.factory.gateway(entry, configuration, on: asking.eventLoop),
                    )
                }.get()
                answers.append((answer.outcome, answer.reason))
                word = DryRunReport.Verdict.Word(answers, hasMore: first + answers.count < samples.count)
            }
            guard let word else { break }
            verdicts.append(DryRunReport.Verdict(route: entry.route, locale: locale, word: word))
            // Nothing is learned of the other languages by tokens that are dead.
            if case .unknown = word { break }
            first += answers.count - 1
        }
        return verdicts
    }
}

extension DryRunReport.Verdict.Word {
    /// Of what a provider answered for one token after the other. Pure.
    ///
    /// - Parameter hasMore: whether there are other tokens.
    /// - Returns: nil when another token is to be tried: the last answer spoke of its own.
    init?(_ answers: [(outcome: DeliveryOutcome, reason: String)], hasMore: Bool) {
        guard let last = answers.last else { return nil }
        switch last.outcome {
        case .accepted: self = .taken
        case .unregistered, .suspect:
            guard !hasMore else { return nil }
            // One token of another sender's is a token's fault, all of them are the project's.
            let isForeign = answers.allSatisfy { $0.outcome == .suspect(.wrongSender) }
            self = isForeign ? .refused(last.reason) : .unknown(last.reason)
        case .rejected, .misconfigured: self = .refused(last.reason)
        // That there was no answer, or not now, is no word on the message.
        case .deferred, .lost: self = .unknown(last.reason)
        }
    }
}
