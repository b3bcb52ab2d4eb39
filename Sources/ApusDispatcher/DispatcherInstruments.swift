internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusProviders
internal import ApusService
internal import NIOCore

/// The dispatcher's metrics with the cells that any thread may count in.
struct DispatcherInstruments: Sendable {
    let metrics: DispatcherMetrics
    let shared: SharedMetrics
    /// Takes the spans of recorded traces; nil: nobody wants them.
    var spans: SpanRecorder?

    /// Records how large the messages of a route are.
    func note(_ context: RouteContext) {
        let histogram = self.metrics.payloadBytes[context.route.provider]
        for message in context.messages.variants { self.shared.observe(Int64(message.payloadBytes), in: histogram) }
    }

    /// A step of dispatching a send has ended: the one that its trace is named by, or one that follows it.
    ///
    /// - Parameter step: nil: dispatching itself, from the mailbox on.
    func ended(_ name: String, step: String? = nil, of context: SendContext, from start: Int64, to end: Int64) {
        guard let spans, let trace = context.trace, trace.isSampled else { return }
        let publisher = TraceContext(traceparent: context.command.traceparent)
        spans.record(
            TraceSpan(
                name,
                step == nil ? .consumer : .internal,
                step.map { trace.child($0, of: context.send) } ?? trace,
                parent: step == nil ? publisher?.span : trace.span,
                tracestate: context.tracestate,
                from: start,
                to: end,
                attributes: ["apus.send": .text(context.send), "apus.app": .text(context.command.app)],
            )
        )
    }

    /// A token was made for a provider, or was not to be had.
    func minted(_ provider: Provider, _ succeeded: Bool) {
        self.shared.add(to: self.metrics.tokenMints[provider, succeeded ? .ok : .failed])
    }

    /// Does something of a stage, and records how long it took if it succeeds.
    func timing<Result>(_ stage: DispatchStage, _ body: () async throws -> Result) async throws -> Result {
        let start = NIODeadline.now()
        let result = try await body()
        self.shared.observe((NIODeadline.now() - start).nanoseconds, in: self.metrics.stageDuration[stage])
        return result
    }
}
