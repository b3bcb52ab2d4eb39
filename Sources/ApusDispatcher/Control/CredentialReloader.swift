internal import ApusCore
internal import ApusMetrics
internal import ApusProviders
internal import ApusService
internal import ApusStreams
internal import Logging
internal import NIOCore

/// Replaces keys and accounts while the dispatcher sends.
///
/// It reads a changed file, signs with its key, and asks the provider at the configured address, if it can be asked, whether it accepts the
/// credential. Only then do new connections replace the old ones, which close after their last answer, and a route that was stopped resumes.
/// A credential that fails any of these steps changes nothing but the log, a metric, and what `/readyz` and `apus services` say.
struct CredentialReloader: Sendable {
    /// The time after which a provider that could not be asked is asked again.
    static let retryInterval = Duration.seconds(10)
    /// The time after which a provider that has refused a credential is asked again: rights that it grants take minutes to count everywhere.
    static let refusalRetryInterval = Duration.seconds(60)

    let factory: GatewayFactory
    let routes: RouteTable
    /// The publishers of the configuration that this service began with.
    let publishers: [PublisherName]
    /// The event loop on which providers are asked.
    let eventLoop: any EventLoop
    /// Replaces the gateways of a route on every event loop.
    let exchange: @Sendable (RouteTable.Entry, GatewayConfiguration) async throws -> Void
    let watch: FaultWatch
    let metrics: DispatcherMetrics
    let shared: SharedMetrics
    let logger: Logger

    /// Applies the changes to the configuration of known routes, and names those that running parts cannot take over: routes that were added
    /// or removed, settings of a route that its gateways cannot change, and other publishers.
    func review(_ common: CommonSettings) async -> SettingsReview {
        let apps = common.apps
        var review = SettingsReview()
        review.renewals = Set(self.publishers).symmetricDifference(common.publishers.keys).sorted()
            .map { "publisher \($0)" }
        review.appsInUse = Set(apps.keys)
        var questions: [Question] = []
        for entry in self.routes.entries {
            do {
                let made = questions.map(\.configuration)
                guard let change = try self.change(of: entry, apps, beside: made) else { continue }
                guard let configuration = change.asked else {
                    self.renew(entry.route, &review)
                    continue
                }
                questions.append(
                    Question(entry: entry, configuration: configuration, needsNewParts: change.needsNewParts)
                )
            } catch {
                self.refuse(entry, error, &review)
            }
        }
        let verdicts = await self.verdicts(on: questions)
        for (question, verdict) in zip(questions, verdicts) {
            // The service ends: its gateways are not to be replaced any more.
            guard !Task.isCancelled else { return review }
            await self.use(question, verdict, &review)
        }
        self.compareRoutes(apps, &review)
        return review
    }

    /// Describes what the provider of a route is asked about.
    private struct Question: Sendable {
        let entry: RouteTable.Entry
        let configuration: GatewayConfiguration
        let needsNewParts: Bool
    }

    private typealias Verdict = Result<CredentialProbe.Verdict, any Error>

    /// Asks all questions at once, because a provider that does not answer takes its time.
    ///
    /// - Returns: the verdicts, in the order of the questions.
    private func verdicts(on questions: [Question]) async -> [Verdict] {
        await withTaskGroup(of: (Int, Verdict).self) { group in
            for (index, question) in questions.enumerated() {
                group.addTask {
                    do {
                        let (entry, configuration) = (question.entry, question.configuration)
                        return (index, .success(try await self.factory.probe(entry, configuration, on: self.eventLoop)))
                    } catch {
                        return (index, .failure(error))
                    }
                }
            }
            var verdicts: [Int: Verdict] = [:]
            for await (index, verdict) in group { verdicts[index] = verdict }
            return questions.indices.compactMap { verdicts[$0] }
        }
    }

    /// Uses a configuration that its provider accepts, or records why it is not used.
    private func use(_ question: Question, _ answer: Verdict, _ review: inout SettingsReview) async {
        let (entry, configuration) = (question.entry, question.configuration)
        do {
            let verdict = try answer.get()
            self.shared.add(to: self.metrics.credentialReloads[entry.route.provider, ReloadLabel(verdict)])
            switch verdict {
            // A key is signed with when it is read: that is all that can be tested where nobody can be asked.
            case .taken, .unasked:
                if question.needsNewParts {
                    self.renew(entry.route, &review)
                } else {
                    try await self.adopt(entry, configuration)
                }
            case .refused(let word):
                review.retryInterval = review.retryInterval ?? Self.refusalRetryInterval
                self.refuse(entry, "the provider refuses it: \(word)", &review)
            case .unanswered(let word):
                review.retryInterval = Self.retryInterval
                let address = configuration.gateway
                let reason = "\(address.host):\(address.port) could not be asked (\(word)); it is asked again"
                self.refuse(entry, reason, &review)
            }
        } catch {
            self.refuse(entry, error, &review)
        }
    }

    /// Names the routes that were added or removed, and reads the credentials of the new ones: they would be used from then on.
    private func compareRoutes(_ apps: [AppID: AppSettings], _ review: inout SettingsReview) {
        let known = Set(self.routes.entries.map(\.route))
        let configured = self.routes.providers.all.flatMap { ((try? $0.routes(of: apps)) ?? []).map(\.route) }
        let others = known.symmetricDifference(configured).sorted { $0.description < $1.description }
        for route in others { self.renew(route, &review) }
        guard !review.renewals.isEmpty, review.refusals.isEmpty else { return }
        do {
            try self.factory.check(apps)
        } catch {
            review.refusals.append(error.sentence)
            self.logger.error(
                "changed routes cannot be used",
                metadata: ["routes": .array(review.renewals.map { .string($0) }), "error": "\(error.sentence)"]
            )
        }
    }

    /// Describes a route whose configuration has changed.
    private struct Change {
        /// The configuration that the provider is to be asked about; nil for a change of nothing but the rate.
        var asked: GatewayConfiguration?
        /// True when the gateways cannot take the change over.
        var needsNewParts: Bool
    }

    /// Returns the change of a route's configuration; nil if it is unchanged.
    private func change(
        of entry: RouteTable.Entry,
        _ apps: [AppID: AppSettings],
        beside made: [GatewayConfiguration],
    ) throws -> Change? {
        guard let source = try self.factory.source(of: entry.route, apps),
            let known = self.factory.source(of: entry.number), !source.isEqual(to: known)
        else { return nil }
        let paced = source.keepingRate(ofAny: known)
        guard !paced.isEqual(to: known) else { return Change(asked: nil, needsNewParts: true) }
        return Change(
            asked: try self.factory.configuration(source, of: entry.route, beside: made),
            needsNewParts: source.target != known.target || !paced.isEqual(to: source)
        )
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

    private func renew(_ route: Route, _ review: inout SettingsReview) {
        review.renewals.append(route.description)
        review.appsInUse.remove(route.app)
    }

    private func refuse(_ entry: RouteTable.Entry, _ error: any Error, _ review: inout SettingsReview) {
        self.shared.add(to: self.metrics.credentialReloads[entry.route.provider, .unusable])
        self.refuse(entry, (error as? SettingsError)?.sentence ?? "\(error)", &review)
    }

    private func refuse(_ entry: RouteTable.Entry, _ reason: String, _ review: inout SettingsReview) {
        review.refusals.append("\(entry.route): \(reason)")
        review.appsInUse.remove(entry.route.app)
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
