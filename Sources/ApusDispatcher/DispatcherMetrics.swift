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
    /// Open connections.
    package let connections: GaugeBy<Provider>
    /// Attempts to connect that ended.
    package let connectionAttempts: CounterBy2<Provider, ConnectionAttempt>
    /// GOAWAY frames.
    package let goAways: CounterBy<Provider>
    /// Streams that the providers allow at once.
    package let streamsLimit: GaugeBy<Provider>
    /// Streams or groups that vanished and were made again.
    package let groupsLost: Counter
    /// Entries that vanished before they were acknowledged.
    package let entriesVanished: Counter

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
        )
        self.queueWait = catalogue.histogram(
            "apus_dispatcher_queue_wait_seconds",
            "Time from publication to reading from the mailbox.",
            buckets: .queueWait,
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
        )
        self.requests = catalogue.counter(
            "apus_provider_requests_total",
            "Requests by answer.",
            by: .all,
            .all,
        )
        self.connections = catalogue.gauge("apus_provider_connections", "Connections that are open.", by: .all)
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
        self.groupsLost = catalogue.counter(
            "apus_dispatcher_groups_lost_total",
            "Streams or consumer groups that vanished and were made again.",
        )
        self.entriesVanished = catalogue.counter(
            "apus_dispatcher_entries_vanished_total",
            "Stream entries that vanished before they were acknowledged.",
        )
    }
}
