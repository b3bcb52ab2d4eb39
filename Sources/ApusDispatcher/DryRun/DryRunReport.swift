package import ApusCore
package import ApusMessages
package import ApusProviders

/// What a send would do.
package struct DryRunReport: Hashable, Sendable {
    /// How many it would be planned for on one route.
    package struct Audience: Hashable, Sendable {
        /// Which way out.
        package var route: Route
        /// Found in the postings and lists; who no longer matches when the turn comes is skipped then.
        package var recipients: UInt64
    }

    /// What the provider says of the message, which it only checks.
    package struct Verdict: Hashable, Sendable {
        /// What it is.
        package enum Word: Hashable, Sendable {
            /// It would be taken.
            case taken
            /// It would not, or the provider could not be asked: its word, or what happened instead.
            case refused(String)
            /// The provider spoke of the tokens that it was tried with, and not of the message.
            case unknown(String)
        }

        /// Which way out.
        package var route: Route
        /// The variant's; empty: the notification's own words.
        package var locale: String
        /// What it is.
        package var word: Word
    }

    /// Who holds the audience: it counts as one recipient, and whom it reaches nobody is told; nil: it is known here.
    package var holder: Provider?
    /// By route.
    package var audiences: [Audience] = []
    /// Recipients that would end without being sent to: no route leads to them, or they are not there.
    package var closed: [OutcomeCount] = []
    /// By route and language.
    package var renderings: [RouteRendering] = []
    /// Advice: nothing of it stops the send.
    package var lints: [Problem] = []
    /// By route and language.
    package var verdicts: [Verdict] = []

    /// Nothing found yet.
    package init() {}

    /// All recipients.
    package var recipients: UInt64 {
        self.audiences.reduce(self.closed.reduce(0) { $0 + $1.count }) { $0 + $1.recipients }
    }
}

extension SendReceipt {
    /// What a dry run found, without the payloads themselves.
    package init(_ report: DryRunReport, id: String, send: String, app: String) {
        self.init(id: id, send: send, app: app, kind: .dryRun)
        self.planned = report.recipients
        var open: [Provider: UInt64] = [:]
        for audience in report.audiences { open[audience.route.provider, default: 0] += audience.recipients }
        self.counts = open.sorted { $0.key < $1.key }.filter { $0.value > 0 }.map { provider, count in
            OutcomeCount(provider: provider, outcome: .open, reason: .none, count: count)
        }
        self.counts += report.closed
        self.renderings = report.renderings.prefix(Limits.dryRunPartsMax).map { rendering in
            Rendering(
                provider: rendering.route.provider,
                environment: rendering.route.environment,
                locale: rendering.locale,
                payloadBytes: UInt32(clamping: rendering.payloadBytes),
                payloadBytesMax: UInt32(clamping: rendering.payloadBytesMax),
            )
        }
        self.lints = Array(report.lints.prefix(Limits.dryRunPartsMax))
    }
}
