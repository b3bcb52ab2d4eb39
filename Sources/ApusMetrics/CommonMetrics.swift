/// The labels of `apus_build_info`.
public struct BuildInformation: Sendable, Hashable {
    /// The service: `apus-dispatcher`.
    public var service: String
    /// The product's version.
    public var version: String
    /// The revision that was built.
    public var revision: String
    /// The compiler's version.
    public var swiftVersion: String

    /// Creates the labels of a build.
    public init(service: String, version: String, revision: String, swiftVersion: String) {
        self.service = service
        self.version = version
        self.revision = revision
        self.swiftVersion = swiftVersion
    }
}

/// The families that every service has.
public struct CommonMetrics: Sendable {
    package let ready = Gauge("apus_ready", "Whether the service says that it is ready.")
    package let draining = Gauge("apus_draining", "Whether the service is on its way to stop.")
    package let configurationReloadSuccessful = Gauge(
        "apus_config_last_reload_successful",
        "Whether the configuration was valid when it was last read."
    )
    /// The unit is milliseconds.
    package let configurationReloadSuccess = Gauge(
        "apus_config_last_reload_success_timestamp_seconds",
        "When a valid configuration was last read.",
        scale: .thousandths,
        startsAbsent: true
    )
    package let logMessages = CounterBy<LogLevelLabel>(
        "apus_log_messages_total",
        "Log lines by level, the dropped ones included."
    )
    package let logMessagesDropped = CounterBy<LogLevelLabel>(
        "apus_log_messages_dropped_total",
        "Log lines that were not written: the output could not keep up, or one place of the code said too much."
    )
    package let spans = CounterBy<SpanOutcomeLabel>(
        "apus_trace_spans_total",
        "Spans of recorded traces, by what became of them; none without a collector in the configuration."
    )
    /// The unit is nanoseconds.
    package let eventLoopLag = Histogram(
        "apus_event_loop_lag_seconds",
        "How late a timer of 100 ms fires on an event loop.",
        buckets: .short
    )
    /// The unit is nanoseconds.
    package let eventLoopBusy: CounterBy<LabelSlot>
    /// The event loops: slots of `eventLoopBusy`.
    package let eventLoops = ConfiguredLabel("loop", valuesMax: 64)
    package let refusedRecords = Counter(
        "apus_store_records_refused_total",
        "Records of devices that were not read or not written because a key of their encryption is missing."
    )
    package let redis = RedisMetrics()
    package let streams: StreamMetrics
    package let process = ProcessMetrics()

    /// Declares the families in the current catalogue.
    ///
    /// - Parameters:
    ///   - build: the labels of `apus_build_info`.
    ///   - reading: the streams that the service reads.
    ///   - letters: the streams of which it writes dead letters; nil for those that it reads.
    public init(build: BuildInformation, reading: [StreamLabel], letters: [StreamLabel]? = nil) {
        declareInfo(
            "apus_build_info",
            "Which build is running.",
            [
                ("service", build.service), ("version", build.version), ("revision", build.revision),
                ("swift_version", build.swiftVersion),
            ],
        )
        self.eventLoopBusy = CounterBy(
            "apus_event_loop_busy_seconds_total",
            "Processor time used by the thread of an event loop.",
            by: .configured(self.eventLoops),
            scale: .billionths
        )
        self.streams = StreamMetrics.reading(reading, letters: letters ?? reading)
    }
}

/// The families of commands to Redis, from the service's view.
public struct RedisMetrics: MetricSet {
    package let commands = CounterBy2<RedisCommandLabel, RedisOutcomeLabel>(
        "apus_redis_commands_total",
        "Redis commands by how they ended."
    )
    /// The unit is nanoseconds.
    package let commandDuration = HistogramBy<RedisCommandLabel>(
        "apus_redis_command_duration_seconds",
        "Time from sending a Redis command to its answer, blocking reads excluded.",
        buckets: .short
    )
    package let connected = Gauge("apus_redis_connected", "Whether Redis is reachable: 1 or 0.")
    package let reconnects = Counter("apus_redis_reconnects_total", "Connections to Redis made again after a loss.")

    /// Declares all of them.
    public init() {}
}

/// The families of the streams that a service reads, and of the dead letters that it writes. The gauges are absent
/// while Redis is unreachable or was not queried yet.
public struct StreamMetrics: MetricSet {
    package let entriesRead = CounterBy<GroupedStream>(
        "apus_stream_entries_read_total",
        "Stream entries read.",
        by: .read
    )
    package let entriesAcknowledged = CounterBy<GroupedStream>(
        "apus_stream_entries_acked_total",
        "Stream entries finished and acknowledged.",
        by: .read
    )
    package let entriesClaimed = CounterBy<GroupedStream>(
        "apus_stream_entries_claimed_total",
        "Stream entries taken over from consumers that went away.",
        by: .read
    )
    package let entriesMalformed = CounterBy<StreamLabel>(
        "apus_stream_entries_malformed_total",
        "Stream entries that could not be decoded.",
        by: .read
    )
    package let deadLetters = CounterBy2<StreamLabel, DeadLetterLabel>(
        "apus_stream_dead_letters_total",
        "Dead letters by the stream that the entry came from.",
        by: .deadLetters,
        .all
    )
    /// The limit is `StreamLimits.readSilenceMax`.
    package let readsStalled = Gauge(
        "apus_stream_reads_stalled",
        "Streams of all shards that have room for entries and were not read for ten seconds."
    )
    package let unreachableShards = Gauge(
        "apus_stream_unreachable_shards",
        "Queue shards whose Redis server does not answer, while others do.",
        startsAbsent: true
    )
    package let serversWithoutFunctions = Gauge(
        "apus_redis_servers_without_functions",
        "Redis masters that answer and lack Apus' functions, or have older ones than this program needs.",
        startsAbsent: true
    )
    package let length = GaugeBy<StreamLabel>(
        "apus_stream_length_entries",
        "Entries in the stream.",
        by: .read,
        startsAbsent: true
    )
    /// The backlog is `XLEN` without pending entries. Redis' own lag is null or wrong in a stream from which entries are deleted.
    package let backlog = GaugeBy<GroupedStream>(
        "apus_stream_backlog_entries",
        "Entries that no consumer has read yet.",
        by: .read,
        startsAbsent: true
    )
    package let pending = GaugeBy<GroupedStream>(
        "apus_stream_pending_entries",
        "Entries read and not acknowledged.",
        by: .read,
        startsAbsent: true
    )
    /// The unit is milliseconds.
    package let oldestUnread = GaugeBy<GroupedStream>(
        "apus_stream_oldest_unread_timestamp_seconds",
        "When the oldest unread entry was written, or 0 when there is none.",
        by: .read,
        scale: .thousandths,
        startsAbsent: true
    )
    /// The unit is milliseconds.
    package let oldestPending = GaugeBy<GroupedStream>(
        "apus_stream_oldest_pending_timestamp_seconds",
        "When the oldest pending entry was written, or 0 when there is none.",
        by: .read,
        scale: .thousandths,
        startsAbsent: true
    )

    /// Declares the families for the streams that are read, and those of which dead letters are written.
    static func reading(_ labels: [StreamLabel], letters: [StreamLabel]) -> StreamMetrics {
        ReadStreams.$labels.withValue(labels) { ReadStreams.$letters.withValue(letters) { StreamMetrics() } }
    }

    /// Declares the families for all streams.
    public init() {}
}

/// Holds the streams that get series of their own while a set is declared.
private enum ReadStreams {
    @TaskLocal static var labels = StreamLabel.allCases
    @TaskLocal static var letters = StreamLabel.allCases
}

extension LabelDimension<StreamLabel> {
    fileprivate static var read: LabelDimension { .only(ReadStreams.labels) }
    fileprivate static var deadLetters: LabelDimension { .only(ReadStreams.letters) }
}

extension LabelDimension<GroupedStream> {
    fileprivate static var read: LabelDimension { .only(ReadStreams.labels.map(GroupedStream.init)) }
}

/// The families that Prometheus expects of every process; a reader of /proc sets the values. A value that cannot be read stays absent.
///
/// Source: https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics
public struct ProcessMetrics: MetricSet {
    /// The unit is nanoseconds.
    package let cpu = Counter("process_cpu_seconds_total", "User and system processor time used.", scale: .billionths)
    package let openDescriptors = Gauge("process_open_fds", "Open file descriptors.", startsAbsent: true)
    package let maxDescriptors = Gauge("process_max_fds", "Limit of open file descriptors.", startsAbsent: true)
    package let virtualMemory = Gauge("process_virtual_memory_bytes", "Virtual memory size.", startsAbsent: true)
    package let residentMemory = Gauge("process_resident_memory_bytes", "Resident memory size.", startsAbsent: true)
    /// The unit is milliseconds.
    package let startTime = Gauge(
        "process_start_time_seconds",
        "When the process started.",
        scale: .thousandths,
        startsAbsent: true
    )
    package let threads = Gauge("process_threads", "Threads of the process.", startsAbsent: true)

    /// Declares all of them.
    public init() {}
}
