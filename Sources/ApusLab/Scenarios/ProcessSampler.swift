internal import ApusCore
internal import ApusSimulator
internal import Glibc

/// Samples the processor time and memory of a cluster's processes.
struct ProcessSampler: Sendable {
    private static let interval = Duration.milliseconds(100)

    /// The process ids by their names in the report.
    let processes: [String: Int32]
    let simulator: Simulator
    let clock: any WallClock

    /// Samples until the task is cancelled.
    func run() async -> [ResourceSample] {
        var samples: [ResourceSample] = []
        while !Task.isCancelled {
            if let sample = await self.sample() { samples.append(sample) }
            try? await Task.sleep(for: Self.interval)
        }
        return samples
    }

    /// Returns a sample; nil when the simulator has ended.
    func sample() async -> ResourceSample? {
        var seconds = self.processes.compactMapValues { ProcessStatistics.processorSeconds(of: $0) }
        guard let loops = try? await self.simulator.onEachEventLoop({ ProcessStatistics.threadSeconds() }) else {
            return nil
        }
        let sink = loops.map { $0?.ran ?? 0 }.reduce(0, +)
        seconds[LoadProcess.sink] = sink
        seconds[LoadProcess.driver] = max(0, (ProcessStatistics.processorSeconds(of: getpid()) ?? 0) - sink)
        let resident = self.processes[LoadProcess.dispatcher].flatMap { ProcessStatistics.residentBytes(of: $0) }
        return ResourceSample(
            time: self.clock.nanosecondsSince1970(),
            seconds: seconds,
            sink: loops.map { loop in loop.map { $0.ran + $0.waited } ?? 0 },
            residentBytes: resident ?? 0,
        )
    }
}
