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

/// Performs a send without sending: finds its recipients, renders it for every provider and language, and asks the
/// providers that can check messages.
///
/// It runs the same code as a real send, so its findings are those of a send at that moment. It writes nothing.
package struct DryRun: Sendable {
    let routes: RouteTable
    let apps: [AppID: AppSettings]
    private let contexts: SendContextCache
    let planner: Planner
    private let clock: any WallClock
    /// The means to ask providers; nil when they are not asked.
    private let asking: Asking?
    /// Warnings about credentials that cannot be read here, so that their scope is unknown, by provider.
    private let unread: [Provider: [Problem]]

    private struct Asking: Sendable {
        let factory: GatewayFactory
        let eventLoop: any EventLoop
    }

    /// Creates dry runs for a running dispatcher. They do not ask providers, so that a command does not wait for one.
    init(routes: RouteTable, contexts: SendContextCache, planner: Planner, clock: any WallClock) {
        self.routes = routes
        self.apps = [:]
        self.contexts = contexts
        self.planner = planner
        self.clock = clock
        self.asking = nil
        self.unread = [:]
    }

    /// Creates dry runs for the apps of a dispatcher's configuration.
    package init(
        _ apps: [AppID: AppSettings],
        of installation: Installation,
        clock: any WallClock,
        eventLoopGroup: any EventLoopGroup,
        logger: Logger,
        providers: ProviderList = .installed,
    ) async throws {
        self.apps = apps
        self.routes = try await RouteTable(
            apps,
            providers: providers,
            streams: installation.streams,
            copies: InstallationCopies(installation.client),
            logger: logger,
        )
        var catalogue = MetricCatalogue()
        let metrics = DispatcherMetrics(&catalogue)
        let instruments = DispatcherInstruments(metrics: metrics, shared: MetricRegistry(catalogue).shared)
        self.contexts = SendContextCache(
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

    /// Reads the scope of each route's credential, as a dispatcher does when it starts.
    ///
    /// - Returns: warnings about the credentials that cannot be read, because the user who runs a dry run may lack the
    ///   right to read them.
    private static func learnScopes(of apps: [AppID: AppSettings], _ routes: RouteTable) -> [Provider: [Problem]] {
        var unread: [Provider: [Problem]] = [:]
        for entry in routes.entries {
            guard let settings = apps[entry.route.app]?[entry.route.provider] else { continue }
            do {
                try entry.providerRoute.learnScope(settings)
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

    /// Returns what the command would do.
    ///
    /// - Parameter asksProviders: true to ask the providers that check messages without delivering them.
    /// - Throws: `Problem` with the reason for which the command would be refused.
    package func run(_ command: SendCommand, asksProviders: Bool) async throws -> DryRunReport {
        let context = try await self.context(of: command)
        let terms = try self.terms(context)
        let entries = self.routes.entries.filter { context.routes[$0.number] != nil }
        var report = DryRunReport()
        report.holder = command.target.holder
        report.renderings = try entries.flatMap { try $0.providerRoute.preview(context.command, terms) }
            .sorted { ($0.route.description, $0.locale) < ($1.route.description, $1.locale) }
        var samples: [RouteNumber: WorkUnit] = [:]
        let planned = self.routes.planned(context)
        for number in planned {
            let found = try await self.count(context, PlanShare(route: number, routes: planned))
            for count in found.closed { report.closed.add(count) }
            guard let route = context.routes[number]?.route else { continue }
            report.audiences.append(DryRunReport.Audience(route: route, recipients: found.recipients))
            samples[number] = found.sample
        }
        report.lints = DryRunLints.all(command, report, self.routes.providers, now: self.clock.now())
        for provider in Set(report.renderings.map(\.route.provider)).sorted() {
            report.lints += self.unread[provider] ?? []
        }
        guard asksProviders, let asking else { return report }
        // All providers are asked at once, because one that does not answer takes its time.
        report.verdicts = try await withThrowingTaskGroup { group in
            for entry in entries {
                guard let sample = samples[entry.number] else { continue }
                group.addTask {
                    (entry.number, try await self.verdicts(context, entry, of: sample, terms, asking))
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }.sorted { $0.0 < $1.0 }.flatMap(\.1)
        }
        return report
    }

    /// Returns what a dispatcher knows of a command that it has accepted.
    func context(of command: SendCommand) async throws -> SendContext {
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
            let context = try await self.contexts.context(of: command, send: command.id, tag: tag)
            try await ChannelGate(streams: self.planner.streams, routes: self.routes).check(command, now: now)
            return context
        }
    }

    // MARK: Recipients

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
        // An audience that a provider holds is a list with one entry.
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
            for count in find.closed?.counts ?? [] { closed.add(count) }
            sample = sample ?? find.units.first
            guard !find.isLast else { return (recipients, closed, sample) }
            cursor = find.next
        }
    }

    // MARK: Rendering

    private func terms(_ context: SendContext) throws -> RenderContext {
        let now = self.clock.now()
        return RenderContext(
            send: try SendID(context.send),
            publishedAt: context.command.publishedAt(now: now),
            notBefore: context.command.notBefore,
            now: now,
        )
    }

    // MARK: Provider checks

    /// The maximum number of tokens that a message is tried with. An answer about a token says nothing about the
    /// message.
    private static let samplesMax = 3

    /// Asks the provider to check a route's message in every language without delivering it.
    ///
    /// Returns no verdicts if the provider cannot check messages, or if no recipient of the unit can be sent to.
    ///
    /// - Parameter unit: the work unit whose tokens are used.
    private func verdicts(
        _ context: SendContext,
        _ entry: RouteTable.Entry,
        of unit: WorkUnit,
        _ terms: RenderContext,
        _ asking: Asking,
    ) async throws -> [DryRunReport.Verdict] {
        guard let route = context.routes[entry.number],
            let forTokens = try entry.providerRoute.validation(of: context.command, terms, toInstallations: false),
            let source = try asking.factory.source(of: entry.route, self.apps)
        else { return [] }
        let table = try await RecipientLoader(store: self.planner.store).table(unit, context, route)
        let samples = table.rows.indices.filter { table.rows[$0].verdict == .open }.prefix(Self.samplesMax)
        guard !samples.isEmpty else { return [] }
        let hasInstallation = samples.contains { table.rows[$0].isInstallation }
        let forInstallations =
            hasInstallation
            ? try entry.providerRoute.validation(of: context.command, terms, toInstallations: true) : nil
        let configuration = try asking.factory.configuration(source, of: entry.route)
        asking.factory.adopt(configuration, for: entry)

        var verdicts: [DryRunReport.Verdict] = []
        // The index of the first token that is not known to be dead.
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
            // A dead token or a missing answer says nothing about the other languages either.
            switch word {
            case .taken, .refused: break
            case .unknown, .unanswered: return verdicts
            }
            first += answers.count - 1
        }
        return verdicts
    }
}

extension DryRunReport.Verdict.Word {
    /// Sums up a provider's answers for one token after another. Pure.
    ///
    /// - Parameter hasMore: true if there are further tokens to try.
    /// - Returns: nil when the next token is to be tried, because the last answer was about its token.
    init?(_ answers: [(outcome: DeliveryOutcome, reason: String)], hasMore: Bool) {
        guard let last = answers.last else { return nil }
        switch last.outcome {
        case .accepted: self = .taken
        case .unregistered, .suspect:
            guard !hasMore else { return nil }
            // If only one token belongs to another sender, the token is wrong. If all do, the project is wrong.
            let isForeign = answers.allSatisfy { $0.outcome == .suspect(.wrongSender) }
            self = isForeign ? .refused(last.reason) : .unknown(last.reason)
        case .rejected, .misconfigured: self = .refused(last.reason)
        case .deferred, .lost: self = .unanswered(last.reason)
        }
    }
}
