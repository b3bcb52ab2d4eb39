import Logging
import Synchronization

/// Counts log lines.
final class RecordingLog: Sendable {
    private let counts = Mutex<[Logger.Level: Int]>([:])

    var logger: Logger { Logger(label: "test") { _ in Handler(log: self) } }

    func count(_ level: Logger.Level) -> Int { self.counts.withLock { $0[level] ?? 0 } }

    private struct Handler: LogHandler {
        let log: RecordingLog
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.trace

        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { self.metadata[key] }
            set { self.metadata[key] = newValue }
        }

        func log(event: LogEvent) { self.log.counts.withLock { $0[event.level, default: 0] += 1 } }
    }
}
