public import ApusCore
package import ApusMetrics
internal import Glibc
public import Logging
internal import Synchronization

/// Receives the lines of all loggers of a process: one level, one format, one writer.
public final class LogSink: Sendable {
    private let writer: LogWriter
    private let isJSON: Bool
    private let clock: any WallClock
    private let levelIndex: Atomic<Int>
    private let repeats = Mutex(LogRepeats())
    private let counters = Mutex<(shared: SharedMetrics, metrics: CommonMetrics)?>(nil)

    package init(writer: LogWriter, isJSON: Bool, level: Logger.Level, clock: any WallClock) {
        self.writer = writer
        self.isJSON = isJSON
        self.clock = clock
        self.levelIndex = Atomic(Self.index(of: level))
    }

    /// Creates a sink that writes to the standard output.
    public static func standardOutput(_ settings: LogSettings) -> LogSink {
        let isJSON =
            switch settings.format {
            case .auto: isatty(STDOUT_FILENO) == 0
            case .json: true
            case .text: false
            }
        let writer = LogWriter(descriptor: STDOUT_FILENO)
        return LogSink(writer: writer, isJSON: isJSON, level: settings.level, clock: SystemClock())
    }

    /// The least level that is written; it may change while the service runs.
    public var level: Logger.Level {
        get { Logger.Level.allCases[self.levelIndex.load(ordering: .relaxed)] }
        set { self.levelIndex.store(Self.index(of: newValue), ordering: .relaxed) }
    }

    /// Starts to count lines in the given metrics.
    package func count(in shared: SharedMetrics, _ metrics: CommonMetrics) {
        self.counters.withLock { $0 = (shared, metrics) }
    }

    /// Returns a logger with the given name.
    public func logger(_ label: String) -> Logger { Logger(label: label) { ApusLogHandler(label: $0, sink: self) } }

    /// Waits until all lines are written, but at most for the given time.
    public func flush(within limit: Duration) { self.writer.flush(within: limit) }

    func log(_ event: LogEvent, label: String, metadata: Logger.Metadata) {
        let now = self.clock.nanosecondsSince1970()
        var metadata = metadata
        // Repeats are limited from warnings upwards: lower levels are written only on request and say each thing once.
        if event.level >= .warning {
            let place = LogRepeats.Place(file: event.file, line: event.line)
            guard let withheld = self.repeats.withLock({ $0.admit(place, at: now) }) else {
                return self.count(event.level, isTaken: false)
            }
            if withheld > 0 { metadata["withheld"] = .stringConvertible(withheld) }
        }
        let line = LogLine(
            nanosecondsSince1970: now,
            level: event.level,
            label: label,
            message: event.message.description,
            error: event.error,
            metadata: metadata,
        )
        let isTaken = self.writer.write(self.isJSON ? line.json() : line.text(), level: event.level)
        self.count(event.level, isTaken: isTaken)
    }

    private func count(_ level: Logger.Level, isTaken: Bool) {
        guard let counters = self.counters.withLock({ $0 }) else { return }
        guard let label = LogLevelLabel(rawValue: Self.index(of: level)) else { return }
        counters.shared.add(to: counters.metrics.logMessages[label])
        if !isTaken { counters.shared.add(to: counters.metrics.logMessagesDropped[label]) }
    }

    private static func index(of level: Logger.Level) -> Int {
        Logger.Level.allCases.firstIndex(of: level) ?? 0
    }
}

/// Implements swift-log's handler: gathers the metadata and leaves the rest to the sink.
public struct ApusLogHandler: LogHandler {
    private let label: String
    private let sink: LogSink
    private var ownLevel: Logger.Level?

    /// The metadata of every line.
    public var metadata: Logger.Metadata = [:]
    /// Provides metadata from the task's context.
    public var metadataProvider: Logger.MetadataProvider?

    /// Creates the handler of one logger.
    public init(label: String, sink: LogSink) {
        self.label = label
        self.sink = sink
    }

    /// The logger's own level once it is set; the sink's level before.
    public var logLevel: Logger.Level {
        get { self.ownLevel ?? self.sink.level }
        set { self.ownLevel = newValue }
    }

    /// Reads or sets one value of the metadata of every line.
    public subscript(metadataKey key: String) -> Logger.MetadataValue? {
        get { self.metadata[key] }
        set { self.metadata[key] = newValue }
    }

    /// Writes an event.
    public func log(event: LogEvent) {
        var metadata = self.metadata
        if let provided = self.metadataProvider?.get() { metadata.merge(provided) { $1 } }
        if let own = event.metadata { metadata.merge(own) { $1 } }
        self.sink.log(event, label: self.label, metadata: metadata)
    }
}

extension Logger {
    /// Returns a logger that adds the ids of a trace and its span, if there are any, to every line: `trace_id` and
    /// `span_id`, as OpenTelemetry names them
    /// (https://opentelemetry.io/docs/specs/otel/compatibility/logging_trace_context/).
    public func traced(_ context: TraceContext?) -> Logger {
        guard let context else { return self }
        var logger = self
        logger[metadataKey: "trace_id"] = "\(context.trace)"
        logger[metadataKey: "span_id"] = "\(context.span)"
        return logger
    }
}
