internal import ApusCore
internal import ApusMessages
internal import ApusProviders
internal import ApusStreams
internal import NIOCore

extension DryRun {
    /// Tokens that a message is tried with: what is said of a token says nothing of the message.
    static let samplesMax = 3

    /// What Google says of a route's message in every language, with `validate_only`: nothing is delivered.
    ///
    /// - Parameter unit: where the tokens to try it with are found; none of them can be sent to: nothing is asked.
    func verdicts(
        _ context: SendContext,
        _ route: RouteContext,
        of unit: WorkUnit,
        _ terms: RenderContext,
        _ google: Google,
    ) async throws -> [DryRunReport.Verdict] {
        guard let entry = self.routes.entry(route.route), case .fcm(let project, let authority, _) = entry.kind,
            let settings = self.apps[entry.route.app],
            let ingredients = try GatewayIngredients(entry.route, settings)
        else { preconditionFailure("a route that is configured") }
        let table = try await RecipientLoader(store: self.planner.store).table(unit, context, route)
        let samples = table.rows.indices.filter { table.rows[$0].verdict == .open }.prefix(Self.samplesMax)
        guard !samples.isEmpty else { return [] }
        func messages(_ target: FCMTarget) throws -> [PreparedMessage] {
            try FCMRenderer.render(context.command.notification, target: target, context: terms, validateOnly: true)
                .variants.map { try .fcm($0, project: project, authority: authority) }
        }
        let forTokens = try messages(try FCMTarget(context.command.target))
        let hasInstallation = samples.contains { table.rows[$0].isInstallation }
        let forInstallations = hasInstallation ? try messages(.installation) : []
        let (factory, eventLoop) = (google.factory, google.eventLoop)
        let recipe = try factory.recipe(ingredients, of: entry.route)
        factory.adopt(recipe, for: entry.number)

        var verdicts: [DryRunReport.Verdict] = []
        // The first that is not known to be dead.
        var first = 0
        for (index, locale) in ([""] + context.command.notification.variants.map(\.locale)).enumerated() {
            var answers: [(outcome: DeliveryOutcome, reason: String)] = []
            var word: DryRunReport.Verdict.Word?
            while word == nil, first + answers.count < samples.count {
                let row = samples[samples.startIndex + first + answers.count]
                let message = (table.rows[row].isInstallation ? forInstallations : forTokens)[index]
                let token = Array(table.token(row))
                let answer = try await eventLoop.flatSubmit {
                    SingleRequest.send(message, token: token, over: factory.gateway(entry, recipe, on: eventLoop))
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
    /// Of what Google answered for one token after the other. Pure.
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
            // Source: https://firebase.google.com/docs/cloud-messaging/error-codes
            let isForeign = answers.allSatisfy { $0.outcome == .suspect(.wrongSender) }
            self = isForeign ? .refused(last.reason) : .unknown(last.reason)
        case .rejected, .misconfigured: self = .refused(last.reason)
        // That there was no answer, or not now, is no word on the message.
        case .deferred, .lost: self = .unknown(last.reason)
        }
    }
}
