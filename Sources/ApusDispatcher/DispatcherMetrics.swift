package import ApusCore
package import ApusMetrics
package import ApusProviders

/// The metrics of the dispatcher.
package struct DispatcherMetrics: MetricSet {
    /// Send commands taken from the mailboxes.
    package let commands: CounterBy<CommandResult>
    /// Final outcomes, one per recipient.
    package let deliveries: CounterBy2<Provider, Outcome>
    /// The same, by reason.
    package let reasons: CounterBy2<Provider, Reason>
    /// Publication to acceptance by the provider.
    package let deliveryLatency: HistogramBy<Provider>
    /// Publication to reading from the mailbox.
    package let queueWait: Histogram
    /// Where the time of direct sends and work units goes.
    package let stageDuration: HistogramBy<DispatchStage>
    /// Name look-up, TCP and TLS, of connections that were made.
    package let connectDuration: HistogramBy<Provider>
    /// TLS alone, of those.
    package let handshakeDuration: HistogramBy<Provider>
    /// PING to its answer.
    package let pingDuration: HistogramBy<Provider>
    /// Recipients on the wire, or answered and not yet written down.
    package let inFlight: GaugeBy<Provider>
    /// Recipients that are tried again.
    package let retries: CounterBy2<Provider, Reason>
    /// Negative latencies.
    package let clockSkew: Counter
    /// Recipients of a planned send.
    package let fanOut: Histogram
    /// Request to answer.
    package let requestDuration: HistogramBy<Provider>
    /// Requests by answer.
    package let requests: CounterBy2<Provider, AnswerCode>
    /// The same final outcomes, by app.
    package let appDeliveries: CounterBy2<LabelSlot, ProviderOutcome>
    /// The apps: slots of `appDeliveries`.
    package let apps: ConfiguredLabel
    /// Bytes of the body of a request.
    package let payloadBytes: HistogramBy<Provider>
    /// Bytes of the bodies of all requests.
    package let payloadTotal: CounterBy<Provider>
    /// Bytes of HTTP/2.
    package let bytes: CounterBy2<Provider, ByteDirection>
    /// Tokens made for providers.
    package let tokenMints: CounterBy2<Provider, TokenMint>
    /// Connections by state.
    package let connections: GaugeBy2<Provider, ConnectionState>
    /// Attempts to connect that ended.
    package let connectionAttempts: CounterBy2<Provider, ConnectionAttempt>
    /// GOAWAY frames.
    package let goAways: CounterBy2<Provider, GoAwayCode>
    /// Time in which a route sent nothing though something waited.
    package let throttled: CounterBy2<Provider, ThrottleCause>
    /// Circuits by state.
    package let circuits: GaugeBy2<Provider, CircuitLabel>
    /// Requests on the wire.
    package let streamsInFlight: GaugeBy<Provider>
    /// Streams that the providers allow at once.
    package let streamsLimit: GaugeBy<Provider>
    /// The sum of the rate levels of routes, in thousandths.
    package let rateLevels: GaugeBy<Provider>
    /// New credentials, by what they came to.
    package let credentialReloads: CounterBy2<Provider, ReloadLabel>
    /// When the first credential in use expires, in milliseconds.
    package let credentialExpiry: GaugeBy2<Provider, CredentialKind>
    /// Streams or groups that vanished and were made again.
    package let groupsLost: Counter
    /// Entries that vanished before they were acknowledged.
    package let entriesVanished: Counter
    /// Calls repeated after a failover.
    package let callsReplayed: Counter
    /// Calls that could not be kept for as long as a failover may undo them.
    package let replayCallsDropped: Counter

    /// Apps with series of their own.
    package static let appsMax = 50

    /// Declares them.
    package init(_ catalogue: inout MetricCatalogue) {
        self.commands = catalogue.counter(
            "apus_dispatcher_commands_total",
            "Send commands taken from the mailboxes.",
            by: .all,
        )
        self.deliveries = catalogue.counter(
            "apus_dispatcher_deliveries_total",
            "Recipients that reached a final outcome.",
            by: .all,
            .only(Outcome.final),
        )
        self.reasons = catalogue.counter(
            "apus_dispatcher_delivery_reasons_total",
            "Recipients that reached a final outcome other than accepted, by reason.",
            by: .all,
            .all,
        )
        self.deliveryLatency = catalogue.histogram(
            "apus_dispatcher_delivery_latency_seconds",
            "Time from publication to acceptance by the provider.",
            by: .all,
            buckets: .endToEnd,
            keepsExemplars: true,
        )
        self.queueWait = catalogue.histogram(
            "apus_dispatcher_queue_wait_seconds",
            "Time from publication to reading from the mailbox.",
            buckets: .queueWait,
        )
        self.stageDuration = catalogue.histogram(
            "apus_dispatcher_stage_duration_seconds",
            "Time that direct sends and work units spend in each stage, once for each of them and not for each recipient.",
            by: .all,
            buckets: .short,
        )
        self.connectDuration = catalogue.histogram(
            "apus_provider_connect_duration_seconds",
            "Time from an attempt to connect to its finished TLS handshake.",
            by: .all,
            buckets: .roundTrip,
        )
        self.handshakeDuration = catalogue.histogram(
            "apus_provider_tls_handshake_seconds",
            "Time that TLS handshakes took, of the connections that were made.",
            by: .all,
            buckets: .roundTrip,
        )
        self.pingDuration = catalogue.histogram(
            "apus_provider_ping_seconds",
            "Time from an HTTP/2 PING to its answer: one on every new connection, more on silent ones.",
            by: .all,
            buckets: .roundTrip,
        )
        self.inFlight = catalogue.gauge(
            "apus_dispatcher_inflight_deliveries",
            "Recipients on the wire, or answered and not yet written down: what a crash would repeat.",
            by: .all,
        )
        self.retries = catalogue.counter(
            "apus_dispatcher_retries_total",
            "Recipients that are tried again.",
            by: .all,
            .all,
        )
        self.clockSkew = catalogue.counter(
            "apus_dispatcher_clock_skew_total",
            "Latencies that came out negative, because publisher and dispatcher disagree on the time.",
        )
        self.fanOut = catalogue.histogram(
            "apus_dispatcher_fanout_devices",
            "Recipients of sends that were planned.",
            buckets: .fanOut,
        )
        self.requestDuration = catalogue.histogram(
            "apus_provider_request_duration_seconds",
            "Time from a request to its answer.",
            by: .all,
            buckets: .roundTrip,
            keepsExemplars: true,
        )
        self.requests = catalogue.counter(
            "apus_provider_requests_total",
            "Requests by answer.",
            by: .all,
            .all,
        )
        self.apps = ConfiguredLabel("app", valuesMax: Self.appsMax)
        self.appDeliveries = catalogue.counter(
            "apus_dispatcher_app_deliveries_total",
            "Recipients that reached a final outcome, by app; apps beyond the first fifty count as other.",
            by: .configured(self.apps),
            .only(ProviderOutcome.final),
        )
        self.payloadBytes = catalogue.histogram(
            "apus_dispatcher_payload_bytes",
            "Bytes of a request's body, token not counted: once for each send, route and variant, not for each recipient.",
            by: .all,
            buckets: .payloadBytes,
        )
        self.payloadTotal = catalogue.counter(
            "apus_provider_payload_bytes_total",
            "Bytes of the bodies of requests, tokens not counted.",
            by: .all,
        )
        self.connections = catalogue.gauge(
            "apus_provider_connections",
            "Connections by state.",
            by: .all,
            .all,
        )
        self.connectionAttempts = catalogue.counter(
            "apus_provider_connection_attempts_total",
            "Attempts to connect that ended, by how.",
            by: .all,
            .all,
        )
        self.bytes = catalogue.counter(
            "apus_provider_bytes_total",
            "Bytes of HTTP/2 to and from the provider, before TLS.",
            by: .all,
            .all,
        )
        self.tokenMints = catalogue.counter(
            "apus_provider_token_mints_total",
            "Tokens made to send with: APNs tokens signed here, access tokens asked for at Google.",
            by: .all,
            .all,
        )
        self.goAways = catalogue.counter(
            "apus_provider_goaway_total",
            "Connections that the provider ended, by the code of its GOAWAY.",
            by: .all,
            .all,
        )
        self.streamsInFlight = catalogue.gauge(
            "apus_provider_streams_inflight",
            "Requests that await their answer, over all connections.",
            by: .all,
        )
        self.streamsLimit = catalogue.gauge(
            "apus_provider_streams_limit",
            "Requests that the providers allow at once, over all connections.",
            by: .all,
        )
        self.throttled = catalogue.counter(
            "apus_dispatcher_throttled_seconds_total",
            "Time in which a route sent nothing though something waited, by cause, over all event loops.",
            by: .all,
            .all,
            scale: .billionths,
        )
        self.circuits = catalogue.gauge(
            "apus_provider_circuit_state",
            "Circuits of routes in each state, one for each route and event loop.",
            by: .all,
            .all,
        )
        self.rateLevels = catalogue.gauge(
            "apus_provider_rate_levels",
            "What refusals have left of the rates of routes: 1 for each route and event loop that may go at its full rate.",
            by: .all,
            scale: .thousandths,
        )
        self.credentialReloads = catalogue.counter(
            "apus_provider_credential_reloads_total",
            "Credentials that changed while the service ran, by what they came to.",
            by: .all,
            .all,
        )
        self.credentialExpiry = catalogue.gauge(
            "apus_provider_credential_expiry_timestamp_seconds",
            "When the first of the credentials in use expires.",
            by: .all,
            .all,
            scale: .thousandths,
            startsAbsent: true,
        )
        self.groupsLost = catalogue.counter(
            "apus_dispatcher_groups_lost_total",
            "Streams or consumer groups that vanished and were made again.",
        )
        self.entriesVanished = catalogue.counter(
            "apus_dispatcher_entries_vanished_total",
            "Stream entries that vanished before they were acknowledged.",
        )
        self.callsReplayed = catalogue.counter(
            "apus_dispatcher_replayed_calls_total",
            "Calls written to Redis again because another server answered than before.",
        )
        self.replayCallsDropped = catalogue.counter(
            "apus_dispatcher_replay_calls_dropped_total",
            "Calls forgotten for want of room before a failover could no longer undo them.",
        )
    }
}
