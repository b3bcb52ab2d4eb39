internal import Logging

/// Writes the log of a simulated fleet to standard output, each line with the simulated time and the process.
struct FleetLog: LogHandler {
    var logLevel: Logger.Level
    var metadata: Logger.Metadata = [:]

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { self.metadata[key] }
        set { self.metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let scheduler = Scheduler.current
        let seconds = Double(scheduler.now - Scheduler.startNanoseconds) / 1e9
        let all = self.metadata.merging(event.metadata ?? [:]) { $1 }
        let words = all.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: " ")
        let process = scheduler.process.map { "\($0.name) \($0.pid)" } ?? "fleet"
        print("\(seconds) \(process) \(event.level) \(event.message) \(words)")
    }
}
