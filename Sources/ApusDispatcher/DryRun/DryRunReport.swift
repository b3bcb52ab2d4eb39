package import ApusCore
package import ApusMessages
package import ApusProviders

/// The report of what a send would do.
package struct DryRunReport: Hashable, Sendable {
    /// The recipients on one route.
    package struct Audience: Hashable, Sendable {
        /// The route of the recipients.
        package var route: Route
        /// The number of recipients found in the postings and lists. A real send skips those that no longer match when
        /// it reaches them.
        package var recipients: UInt64
    }

    /// The provider's verdict on a message that it only checks.
    package struct Verdict: Hashable, Sendable {
        /// The possible verdicts.
        package enum Word: Hashable, Sendable {
            /// The provider would accept it.
            case taken
            /// The provider would reject it, for the given reason.
            case refused(String)
            /// The provider rejected the tokens and not the message, for the given reason.
            case unknown(String)
            /// The provider cannot be reached, or asks to wait, for the given reason.
            case unanswered(String)
        }

        /// The route of the message.
        package var route: Route
        /// The locale of the variant; empty for the notification's own text.
        package var locale: String
        /// The verdict.
        package var word: Word
    }

    /// The provider that holds the audience, which counts as one recipient because its members are unknown; nil for an
    /// audience that is known here.
    package var holder: Provider?
    /// The recipients by route.
    package var audiences: [Audience] = []
    /// Recipients that would end without being sent to, because no route leads to them or they do not exist.
    package var closed: [OutcomeCount] = []
    /// The rendered messages by route and language.
    package var renderings: [RouteRendering] = []
    /// Warnings. None of them stops the send.
    package var lints: [Problem] = []
    /// The providers' verdicts by route and language.
    package var verdicts: [Verdict] = []

    /// Creates an empty report.
    package init() {}

    /// The number of all recipients.
    package var recipients: UInt64 {
        self.audiences.reduce(self.closed.reduce(0) { $0 + $1.count }) { $0 + $1.recipients }
    }
}

extension SendReceipt {
    /// Creates a receipt with the findings of a dry run, with as many of the rendered messages as it has room for.
    package init(_ report: DryRunReport, id: String, send: String, app: String) {
        self.init(id: id, send: send, app: app, kind: .dryRun)
        self.planned = report.recipients
        var open: [Provider: UInt64] = [:]
        for audience in report.audiences { open[audience.route.provider, default: 0] += audience.recipients }
        self.counts = open.sorted { $0.key < $1.key }.filter { $0.value > 0 }.map { provider, count in
            OutcomeCount(provider: provider, outcome: .open, reason: .none, count: count)
        }
        self.counts += report.closed
        var room = Limits.dryRunPayloadsBytesMax
        self.renderings = report.renderings.prefix(Limits.dryRunPartsMax).map { rendering in
            var part = Rendering(
                provider: rendering.route.provider,
                environment: rendering.route.environment,
                locale: rendering.locale,
                payloadBytes: UInt32(clamping: rendering.payloadBytes),
                payloadBytesMax: UInt32(clamping: rendering.payloadBytesMax),
            )
            let headers = rendering.headers.map { "\($0.name): \($0.value)" }
            let bytes = rendering.payload.utf8.count + headers.reduce(0) { $0 + $1.utf8.count }
            guard bytes <= min(room, Limits.dryRunPayloadBytesMax), headers.count <= Limits.dryRunHeadersMax else {
                return part
            }
            room -= bytes
            (part.payload, part.headers) = (rendering.payload, headers)
            return part
        }
        self.lints = Array(report.lints.prefix(Limits.dryRunPartsMax))
    }
}
