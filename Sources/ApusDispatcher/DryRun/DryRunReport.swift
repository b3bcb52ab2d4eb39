package import ApusCore
package import ApusMessages

/// What a send would do.
package struct DryRunReport: Hashable, Sendable {
    /// How many it would be planned for on one route.
    package struct Audience: Hashable, Sendable {
        /// Which way out.
        package var route: Route
        /// Found in the postings and lists; who no longer matches when the turn comes is skipped then.
        package var recipients: UInt64
    }

    /// What a provider would be given in one language.
    package struct Rendering: Hashable, Sendable {
        /// A header's name and value.
        package struct Header: Hashable, Sendable {
            /// Its name.
            package var name: String
            /// Its value.
            package var value: String
        }

        /// Which way out.
        package var route: Route
        /// The variant's; empty: the notification's own words.
        package var locale: String
        /// The headers that are the same for every device.
        package var headers: [Header]
        /// The body, with a placeholder for the token where it has one.
        package var payload: String
        /// Bytes that count against the provider's limit.
        package var payloadBytes: Int
        /// The limit.
        package var payloadBytesMax: Int
    }

    /// What Google says of the message, with `validate_only`: nothing is delivered.
    package struct Verdict: Hashable, Sendable {
        /// What it is.
        package enum Word: Hashable, Sendable {
            /// It would be taken.
            case taken
            /// It would not, or Google could not be asked: its word, or what happened instead.
            case refused(String)
            /// Google spoke of the tokens that it was tried with, and not of the message.
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
    package var renderings: [Rendering] = []
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
