/// What `apus_build_info` tells.
public struct BuildInformation: Sendable, Hashable {
    /// The service: `apus-dispatcher`.
    public var service: String
    /// The product's version.
    public var version: String
    /// The revision that was built.
    public var revision: String
    /// The compiler's version.
    public var swiftVersion: String

    /// Names a build.
    public init(service: String, version: String, revision: String, swiftVersion: String) {
        self.service = service
        self.version = version
        self.revision = revision
        self.swiftVersion = swiftVersion
    }
}

/// The families that every service has.
public struct CommonMetrics: Sendable {
    /// 1 while `/readyz` says yes.
    public let ready: Gauge
    /// 1 from the wish to stop on.
    public let draining: Gauge
    /// 0 after a failed reload.
    public let configurationReloadSuccessful: Gauge
    /// When the configuration was last taken over, in milliseconds.
    public let configurationReloadSuccess: Gauge
    /// Log lines by level.
    public let logMessages: CounterBy<LogLevelLabel>
    /// Log lines that were not written: the writer could not keep up, or one place of the code said too much.
    public let logMessagesDropped: CounterBy<LogLevelLabel>
    /// Spans of traces, by what became of them.
    public let spans: CounterBy<SpanOutcomeLabel>
    /// How late a 100 ms timer fired, in nanoseconds.
    public let eventLoopLag: Histogram
    /// Processor time of each event loop's thread, in nanoseconds.
    public let eventLoopBusy: CounterBy<LabelSlot>
    /// The event loops: slots of `eventLoopBusy`.
    public let eventLoops: ConfiguredLabel
    /// Redis.
    public let redis: RedisMetrics
    /// Streams that the service reads or writes.
    public let streams: StreamMetrics
    /// What every process has.
    public let process: ProcessMetrics

    /// Declares them.
    ///
    /// - Parameters:
    ///   - catalogue: where.
    ///   - build: what `apus_build_info` tells.
    ///   - reading: the streams that the service reads.
    public init(_ catalogue: inout MetricCatalogue, build: BuildInformation, reading: [StreamLabel]) {
        catalogue.info(
            "apus_build_info",
            "Which build is running.",
            [
                ("service", build.service), ("version", build.version), ("revision", build.revision),
                ("swift_version", build.swiftVersion),
            ],
        )
        self.ready = catalogue.gauge("apus_ready", "Whether the service says that it is ready.")
        self.draining = catalogue.gauge("apus_draining", "Whether the service is on its way to stop.")
        self.configurationReloadSuccessful = catalogue.gauge(
            "apus_config_last_reload_successful",
            "Whether the configuration was valid when it was last read.",
        )
        self.configurationReloadSuccess = catalogue.gauge(
            "apus_config_last_reload_success_timestamp_seconds",
            "When a valid configuration was last read.",
            scale: .thousandths,
            startsAbsent: true,
        )
        self.logMessages = catalogue.counter(
            "apus_log_messages_total",
            "Log lines by level, the dropped ones included.",
            by: .all,
        )
        self.logMessagesDropped = catalogue.counter(
            "apus_log_messages_dropped_total",
            "Log lines that were not written: the output could not keep up, or one place of the code said too much.",
            by: .all,
        )
        self.spans = catalogue.counter(
            "apus_trace_spans_total",
            "Spans of recorded traces, by what became of them; none without a collector in the configuration.",
            by: .all,
        )
        self.eventLoopLag = catalogue.histogram(
            "apus_event_loop_lag_seconds",
            "How late a timer of 100 ms fires on an event loop.",
            buckets: .short,
        )
        self.eventLoops = ConfiguredLabel("loop", valuesMax: 64)
        self.eventLoopBusy = catalogue.counter(
            "apus_event_loop_busy_seconds_total",
            "Processor time used by the thread of an event loop.",
            by: .configured(self.eventLoops),
            scale: .billionths,
        )
        self.redis = RedisMetrics(&catalogue)
        self.streams = StreamMetrics(&catalogue, reading: reading)
        self.process = ProcessMetrics(&catalogue)
    }
}

/// Redis as the service sees it.
public struct RedisMetrics: Sendable {
    /// Commands by how they ended.
    public let commands: CounterBy2<RedisCommandLabel, RedisOutcomeLabel>
    /// From sending to the answer, in nanoseconds; blocking reads excluded.
    public let commandDuration: HistogramBy<RedisCommandLabel>
    /// 1 while a connection is there, else 0.
    public let connected: Gauge
    /// Connections made again after a loss.
    public let reconnects: Counter

    /// Declares them.
    public init(_ catalogue: inout MetricCatalogue) {
        self.commands = catalogue.counter(
            "apus_redis_commands_total",
            "Redis commands by how they ended.",
            by: .all,
            .all,
        )
        self.commandDuration = catalogue.histogram(
            "apus_redis_command_duration_seconds",
            "Time from sending a Redis command to its answer, blocking reads excluded.",
            by: .all,
            buckets: .short,
        )
        self.connected = catalogue.gauge("apus_redis_connected", "Whether Redis is reachable: 1 or 0.")
        self.reconnects = catalogue.counter(
            "apus_redis_reconnects_total",
            "Connections to Redis made again after a loss.",
        )
    }
}

/// The streams that a service reads, and the dead letters that it writes. The gauges are absent while nobody can tell: Redis
/// is away, or was not asked yet.
public struct StreamMetrics: Sendable {
    /// Entries read.
    public let entriesRead: CounterBy<GroupedStream>
    /// Entries finished.
    public let entriesAcknowledged: CounterBy<GroupedStream>
    /// Entries taken over from consumers that died.
    public let entriesClaimed: CounterBy<GroupedStream>
    /// Entries that could not be decoded.
    public let entriesMalformed: CounterBy<StreamLabel>
    /// Dead letters by the stream that they came from.
    public let deadLetters: CounterBy2<StreamLabel, DeadLetterLabel>
    /// `XLEN`.
    public let length: GaugeBy<StreamLabel>
    /// `XLEN` less pending: not read yet. Redis' own lag is null or wrong in a stream that entries are deleted from.
    public let backlog: GaugeBy<GroupedStream>
    /// Read, not finished.
    public let pending: GaugeBy<GroupedStream>
    /// When the oldest unread entry was written, in milliseconds; 0 when there is none.
    public let oldestUnread: GaugeBy<GroupedStream>
    /// When the oldest pending entry was written, in milliseconds; 0 when there is none.
    public let oldestPending: GaugeBy<GroupedStream>

    /// Declares them for the streams that are read.
    public init(_ catalogue: inout MetricCatalogue, reading: [StreamLabel]) {
        let grouped = LabelDimension<GroupedStream>.only(reading.map(GroupedStream.init))
        let plain = LabelDimension<StreamLabel>.only(reading)
        self.entriesRead = catalogue.counter(
            "apus_stream_entries_read_total",
            "Stream entries read.",
            by: grouped,
        )
        self.entriesAcknowledged = catalogue.counter(
            "apus_stream_entries_acked_total",
            "Stream entries finished and acknowledged.",
            by: grouped,
        )
        self.entriesClaimed = catalogue.counter(
            "apus_stream_entries_claimed_total",
            "Stream entries taken over from consumers that went away.",
            by: grouped,
        )
        self.entriesMalformed = catalogue.counter(
            "apus_stream_entries_malformed_total",
            "Stream entries that could not be decoded.",
            by: plain,
        )
        self.deadLetters = catalogue.counter(
            "apus_stream_dead_letters_total",
            "Dead letters by the stream that the entry came from.",
            by: plain,
            .all,
        )
        self.length = catalogue.gauge(
            "apus_stream_length_entries",
            "Entries in the stream.",
            by: plain,
            startsAbsent: true,
        )
        self.backlog = catalogue.gauge(
            "apus_stream_backlog_entries",
            "Entries that no consumer has read yet.",
            by: grouped,
            startsAbsent: true,
        )
        self.pending = catalogue.gauge(
            "apus_stream_pending_entries",
            "Entries read and not acknowledged.",
            by: grouped,
            startsAbsent: true,
        )
        self.oldestUnread = catalogue.gauge(
            "apus_stream_oldest_unread_timestamp_seconds",
            "When the oldest unread entry was written, or 0 when there is none.",
            by: grouped,
            scale: .thousandths,
            startsAbsent: true,
        )
        self.oldestPending = catalogue.gauge(
            "apus_stream_oldest_pending_timestamp_seconds",
            "When the oldest pending entry was written, or 0 when there is none.",
            by: grouped,
            scale: .thousandths,
            startsAbsent: true,
        )
    }
}

/// What Prometheus expects of every process; values come from a reader of /proc. What cannot be read stays absent.
///
/// Source: https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics
public struct ProcessMetrics: Sendable {
    /// Processor time, in nanoseconds.
    public let cpu: Counter
    /// Open file descriptors.
    public let openDescriptors: Gauge
    /// The limit of open file descriptors.
    public let maxDescriptors: Gauge
    /// Virtual memory.
    public let virtualMemory: Gauge
    /// Resident memory.
    public let residentMemory: Gauge
    /// When the process started, in milliseconds.
    public let startTime: Gauge
    /// Threads.
    public let threads: Gauge

    /// Declares them.
    public init(_ catalogue: inout MetricCatalogue) {
        self.cpu = catalogue.counter(
            "process_cpu_seconds_total",
            "User and system processor time used.",
            scale: .billionths,
        )
        self.openDescriptors = catalogue.gauge(
            "process_open_fds",
            "Open file descriptors.",
            startsAbsent: true,
        )
        self.maxDescriptors = catalogue.gauge(
            "process_max_fds",
            "Limit of open file descriptors.",
            startsAbsent: true,
        )
        self.virtualMemory = catalogue.gauge(
            "process_virtual_memory_bytes",
            "Virtual memory size.",
            startsAbsent: true,
        )
        self.residentMemory = catalogue.gauge(
            "process_resident_memory_bytes",
            "Resident memory size.",
            startsAbsent: true,
        )
        self.startTime = catalogue.gauge(
            "process_start_time_seconds",
            "When the process started.",
            scale: .thousandths,
            startsAbsent: true,
        )
        self.threads = catalogue.gauge("process_threads", "Threads of the process.", startsAbsent: true)
    }
}
