package import ApusCore
package import ApusMetrics
package import ApusProviders
internal import ApusService
internal import NIOCore

/// The metrics of the dispatcher.
package struct DispatcherMetrics: MetricSet {
    package let commands = CounterBy<CommandResult>(
        "apus_dispatcher_commands_total",
        "Send commands taken from the mailboxes."
    )
    package let deliveries = CounterBy2<Provider, Outcome>(
        "apus_dispatcher_deliveries_total",
        "Recipients with a route that reached a final outcome, by the dispatcher that had them in hand.",
        by: .all,
        .only(Outcome.final)
    )
    package let deliveryLatency = HistogramBy<ProviderLane>(
        "apus_dispatcher_delivery_latency_seconds",
        "Time from publication to acceptance by the provider, by lane: express for what a person waits for, bulk for the rest.",
        buckets: .endToEnd,
        keepsExemplars: true
    )
    package let queueWait = Histogram(
        "apus_dispatcher_queue_wait_seconds",
        "Time from publication to reading from the mailbox.",
        buckets: .queueWait
    )
    package let stageDuration = HistogramBy<DispatchStage>(
        "apus_dispatcher_stage_duration_seconds",
        "Time that direct sends and work units spend in each stage, once for each of them and not for each recipient.",
        buckets: .short
    )
    package let connectDuration = HistogramBy<Provider>(
        "apus_provider_connect_duration_seconds",
        "Time from an attempt to connect to its finished TLS handshake.",
        buckets: .roundTrip
    )
    package let handshakeDuration = HistogramBy<Provider>(
        "apus_provider_tls_handshake_seconds",
        "Time that TLS handshakes took, of the connections that were made.",
        buckets: .roundTrip
    )
    package let pingDuration = HistogramBy<Provider>(
        "apus_provider_ping_seconds",
        "Time from an HTTP/2 PING to its answer: one on every new connection, more on silent ones.",
        buckets: .roundTrip
    )
    package let inFlight = GaugeBy<Provider>(
        "apus_dispatcher_inflight_deliveries",
        "Recipients on the wire, or answered and not yet written down: what a crash would repeat."
    )
    package let retries = CounterBy2<Provider, Reason>(
        "apus_dispatcher_retries_total",
        "Recipients that are tried again."
    )
    package let rechecked = Counter(
        "apus_dispatcher_rechecked_recipients_total",
        "Recipients that had waited and were read again before they were sent to."
    )
    package let pausedShards = GaugeBy<Lane>(
        "apus_dispatcher_paused_shards",
        "Queue shards of which a lane is not read, because too many outcomes wait for feedback."
    )
    package let clockSkew = Counter(
        "apus_dispatcher_clock_skew_total",
        "Latencies that came out negative, because publisher and dispatcher disagree on the time."
    )
    package let fanOut = Histogram(
        "apus_dispatcher_fanout_devices",
        "Recipients of sends that were planned.",
        buckets: .fanOut
    )
    package let requestDuration = HistogramBy<Provider>(
        "apus_provider_request_duration_seconds",
        "Time from a request to its answer.",
        buckets: .roundTrip,
        keepsExemplars: true
    )
    package let requests = CounterBy2<Provider, AnswerCode>(
        "apus_provider_requests_total",
        "Requests that were sent, by answer."
    )
    package let appDeliveries: CounterBy2<LabelSlot, ProviderOutcome>
    /// The configured apps, which are the slots of `appDeliveries`.
    package let apps = ConfiguredLabel("app", valuesMax: Self.appsMax)
    package let payloadBytes = HistogramBy<Provider>(
        "apus_dispatcher_payload_bytes",
        "Bytes of a request's body, token not counted: once for each send, route and variant, not for each recipient.",
        buckets: .payloadBytes
    )
    package let payloadTotal = CounterBy<Provider>(
        "apus_provider_payload_bytes_total",
        "Bytes of the bodies of requests, tokens not counted."
    )
    package let bytes = CounterBy2<Provider, ByteDirection>(
        "apus_provider_bytes_total",
        "Bytes of HTTP/2 to and from the provider, before TLS."
    )
    package let tokenMints = CounterBy2<Provider, TokenMint>(
        "apus_provider_token_mints_total",
        "Tokens made to send with: signed here, or asked for at the provider."
    )
    package let connections = GaugeBy2<Provider, ConnectionState>("apus_provider_connections", "Connections by state.")
    package let origins = GaugeBy2<Provider, OriginStanding>(
        "apus_provider_origins",
        "Hosts that addresses of recipients lead to, by state: one for each route, key and event loop, until it is idle."
    )
    package let connectionAttempts = CounterBy2<Provider, ConnectionAttempt>(
        "apus_provider_connection_attempts_total",
        "Attempts to connect that ended, by how; failures at a host that anybody may have made up count once it was reached."
    )
    package let goAways = CounterBy2<Provider, GoAwayCode>(
        "apus_provider_goaway_total",
        "Connections that the provider ended, by the code of its GOAWAY."
    )
    package let throttled = CounterBy2<Provider, ThrottleCause>(
        "apus_dispatcher_throttled_seconds_total",
        "Time in which a route sent nothing though something waited, by cause, over all event loops.",
        scale: .billionths
    )
    package let circuits = GaugeBy2<Provider, CircuitLabel>(
        "apus_provider_circuit_state",
        "Circuits of routes in each state, one for each route and event loop."
    )
    package let streamsInFlight = GaugeBy<Provider>(
        "apus_provider_streams_inflight",
        "Requests that await their answer, over all connections."
    )
    package let streamsLimit = GaugeBy<Provider>(
        "apus_provider_streams_limit",
        "Requests that the providers allow at once, over all connections."
    )
    /// The levels in thousandths.
    package let rateLevels = GaugeBy<Provider>(
        "apus_provider_rate_levels",
        "What refusals have left of the rates of routes: 1 for each route and event loop that may go at its full rate.",
        scale: .thousandths
    )
    package let credentialReloads = CounterBy2<Provider, ReloadLabel>(
        "apus_provider_credential_reloads_total",
        "Credentials that changed while the service ran, by what they came to."
    )
    /// The expiry in milliseconds.
    package let credentialExpiry: GaugeBy2<LabelSlot, CredentialKind>
    /// The configured routes, which are the slots of `credentialExpiry`.
    package let routes = ConfiguredLabel("route", valuesMax: Self.routesMax)
    package let groupsLost = Counter(
        "apus_dispatcher_groups_lost_total",
        "Streams or consumer groups that vanished and were made again."
    )
    package let entriesVanished = Counter(
        "apus_dispatcher_entries_vanished_total",
        "Stream entries that vanished before they were acknowledged."
    )
    package let callsReplayed = Counter(
        "apus_dispatcher_replayed_calls_total",
        "Calls written to Redis again because another server answered than before."
    )
    package let replayCallsDropped = Counter(
        "apus_dispatcher_replay_calls_dropped_total",
        "Calls forgotten for want of room before a failover could no longer undo them."
    )

    /// The maximum number of apps with time series of their own.
    static let appsMax = 50
    /// The maximum number of routes with time series of their own.
    package static let routesMax = 100

    /// Declares all metrics.
    package init() {
        self.appDeliveries = CounterBy2(
            "apus_dispatcher_app_deliveries_total",
            "Recipients that reached a final outcome, by app; apps beyond the first fifty count as other.",
            by: .configured(self.apps),
            .only(ProviderOutcome.final)
        )
        self.credentialExpiry = GaugeBy2(
            "apus_provider_credential_expiry_timestamp_seconds",
            "When the credential that a route uses expires. Routes beyond the first hundred count as other, with the first expiry.",
            by: .configured(self.routes),
            .all,
            scale: .thousandths,
            startsAbsent: true
        )
    }
}

/// The dispatcher's metrics, with cells that any thread may count in.
struct DispatcherInstruments: Sendable {
    let metrics: DispatcherMetrics
    let shared: SharedMetrics
    /// Records the spans of sampled traces; nil if traces are not exported.
    var spans: SpanRecorder?

    /// Counts a token that was made for a provider, or could not be made.
    func minted(_ provider: Provider, _ succeeded: Bool) {
        self.shared.add(to: self.metrics.tokenMints[provider, succeeded ? .ok : .failed])
    }

    /// Runs `body` and records its duration under a stage if it succeeds.
    func timing<Result>(_ stage: DispatchStage, _ body: () async throws -> Result) async throws -> Result {
        let start = NIODeadline.now()
        let result = try await body()
        self.shared.observe((NIODeadline.now() - start).nanoseconds, in: self.metrics.stageDuration[stage])
        return result
    }
}
