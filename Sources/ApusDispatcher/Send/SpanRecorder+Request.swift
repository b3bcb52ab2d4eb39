internal import ApusCore
internal import ApusProviders
internal import ApusService

extension SpanRecorder {
    /// Records the span of one request of a direct send, if its trace is sampled. Planned sends have a span for the
    /// whole, not one per request.
    ///
    /// - Parameter endedAt: the time of the answer in nanoseconds since 1970.
    func record(
        _ active: ActiveRun,
        _ index: Int,
        _ outcome: DeliveryOutcome,
        _ answer: ProviderAnswer,
        endedAt end: Int64,
    ) {
        guard active.recordedTrace != nil, let trace = active.plan.send.trace else { return }
        let provider = active.plan.context.route.provider.name
        var attributes: [String: TraceSpan.Value] = [
            "apus.send": .text(active.plan.send.send), "apus.provider": .text(provider),
        ]
        // A status of 0 means that there was no answer.
        if answer.status != 0 { attributes["http.response.status_code"] = .integer(Int64(answer.status)) }
        var failure: String?
        if case .accepted = outcome {} else { failure = answer.reason() }
        self.record(
            TraceSpan(
                "send \(provider)",
                .client,
                trace.child("request", of: "\(active.plan.context.number)/\(index)/\(answer.startedAt)"),
                parent: trace.span,
                tracestate: active.plan.send.tracestate,
                from: end - (Int64(answer.endedAt) - Int64(answer.startedAt)),
                to: end,
                attributes: attributes,
                failure: failure,
            )
        )
    }
}
