package import ApusCore
package import ApusMetrics

/// What became of a command at intake.
package enum CommandResult: Int, ClosedMetricLabel, Hashable {
    /// Taken.
    case accepted
    /// Its key named the same send already.
    case duplicate
    /// It breaks a rule.
    case invalid
    /// Its key named another send.
    case conflict
    /// Its expiry had passed.
    case expired
    /// It asked what it would do.
    case dryRun

    /// `result`.
    package static let labelNames = ["result"]
}

/// Why a provider's answer was what it was: the status class a dashboard groups by.
package enum AnswerCode: Int, ClosedMetricLabel, Hashable {
    case ok, badRequest, forbidden, notFound, gone, tooLarge, tooManyRequests, otherClient, unavailable, otherServer,
        none

    /// `code`.
    package static let labelNames = ["code"]

    /// As in the metric.
    package var labelValues: [String] {
        switch self {
        case .ok: ["2xx"]
        case .badRequest: ["400"]
        case .forbidden: ["403"]
        case .notFound: ["404"]
        case .gone: ["410"]
        case .tooLarge: ["413"]
        case .tooManyRequests: ["429"]
        case .otherClient: ["4xx"]
        case .unavailable: ["503"]
        case .otherServer: ["5xx"]
        case .none: ["error"]
        }
    }

    /// Of an HTTP status; 0: there was no answer.
    package init(status: Int) {
        switch status {
        case 200..<300: self = .ok
        case 400: self = .badRequest
        case 403: self = .forbidden
        case 404: self = .notFound
        case 410: self = .gone
        case 413: self = .tooLarge
        case 429: self = .tooManyRequests
        case 503: self = .unavailable
        case 300..<500: self = .otherClient
        case 500...: self = .otherServer
        default: self = .none
        }
    }
}

/// How an attempt to connect ended.
package enum ConnectionAttempt: Int, ClosedMetricLabel, Hashable {
    /// With a finished handshake.
    case ok
    /// Without.
    case failed

    /// `outcome`.
    package static let labelNames = ["outcome"]
}

/// Where a connection is in its life.
package enum ConnectionState: Int, ClosedMetricLabel, Hashable {
    /// It is being made.
    case connecting
    /// Requests go out on it.
    case open
    /// It takes no more and waits for the answers that are due.
    case draining

    /// `state`.
    package static let labelNames = ["state"]
}

/// Why a route sends nothing though something waits.
package enum ThrottleCause: Int, ClosedMetricLabel, Hashable {
    /// The rate is used up.
    case rateLimit
    /// Too much is on the wire or not yet written down.
    case window
    /// The provider has asked everybody to wait.
    case retryAfter
    /// An operator has stopped the route.
    case paused
    /// The provider is in trouble.
    case circuit
    /// Redis has not been heard for too long.
    case redis

    /// `cause`.
    package static let labelNames = ["cause"]
}

/// Where a route's circuit is.
package enum CircuitLabel: Int, ClosedMetricLabel, Hashable {
    /// Everything goes out.
    case closed
    /// Nothing goes out.
    case open
    /// A few requests are tried.
    case halfOpen

    /// `state`.
    package static let labelNames = ["state"]
}

/// What a new credential came to.
package enum ReloadLabel: Int, ClosedMetricLabel, Hashable {
    /// It is in use.
    case taken
    /// The provider does not take it.
    case refused
    /// The provider could not be asked.
    case unanswered
    /// Its file is no key or account.
    case unusable

    /// `result`.
    package static let labelNames = ["result"]
}

/// What a provider is shown.
package enum CredentialKind: Int, ClosedMetricLabel, Hashable {
    /// A signed provider token.
    case jwt
    /// An access token.
    case oauth

    /// `kind`.
    package static let labelNames = ["kind"]
}

/// Where the time of a send or of a work unit goes, one after the other.
package enum DispatchStage: Int, ClosedMetricLabel, Hashable {
    /// Its context is found: the command read, written out for each route and variant.
    case render
    /// Recipients are looked up in the store.
    case resolve
    /// They wait for their turn: rate, circuit, window, room on a connection.
    case queue
    /// From the first request to the last answer.
    case send
    /// Outcomes are written to Redis.
    case write

    /// `stage`.
    package static let labelNames = ["stage"]
}

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
    /// Recipients on the wire.
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
    package let appDeliveries: CounterBy2<LabelSlot, Outcome>
    /// The apps: slots of `appDeliveries`.
    package let apps: ConfiguredLabel
    /// Bytes of the bodies of requests.
    package let payloadBytes: CounterBy<Provider>
    /// Connections by state.
    package let connections: GaugeBy2<Provider, ConnectionState>
    /// Attempts to connect that ended.
    package let connectionAttempts: CounterBy2<Provider, ConnectionAttempt>
    /// GOAWAY frames.
    package let goAways: CounterBy<Provider>
    /// Recipients on the wire, or answered and not yet written down.
    package let unwritten: GaugeBy<Provider>
    /// Time in which a route sent nothing though something waited.
    package let throttled: CounterBy2<Provider, ThrottleCause>
    /// Circuits by state.
    package let circuits: GaugeBy2<Provider, CircuitLabel>
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
        self.inFlight = catalogue.gauge(
            "apus_dispatcher_inflight_deliveries",
            "Recipients whose request awaits its answer.",
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
            .only(Outcome.final),
        )
        self.payloadBytes = catalogue.counter(
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
        self.goAways = catalogue.counter("apus_provider_goaway_total", "Connections that the provider ended.", by: .all)
        self.streamsLimit = catalogue.gauge(
            "apus_provider_streams_limit",
            "Requests that the providers allow at once, over all connections.",
            by: .all,
        )
        self.unwritten = catalogue.gauge(
            "apus_dispatcher_unwritten_deliveries",
            "Recipients on the wire, or answered and not yet written down: what a crash would repeat.",
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
