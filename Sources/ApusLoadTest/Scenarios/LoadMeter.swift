internal import ApusCore
internal import ApusSimulator
internal import Glibc

/// Samples what the processes of a fleet use.
struct LoadMeter: Sendable {
    private static let interval = Duration.milliseconds(100)

    /// Process ids, by what the report calls them.
    let processes: [String: Int32]
    let simulator: Simulator
    let clock: any WallClock

    /// Samples until the task is cancelled.
    func run() async -> [LoadSample] {
        var samples: [LoadSample] = []
        while !Task.isCancelled {
            if let sample = await self.sample() { samples.append(sample) }
            try? await Task.sleep(for: Self.interval)
        }
        return samples
    }

    /// Now; nil: the simulator has ended.
    func sample() async -> LoadSample? {
        var seconds = self.processes.compactMapValues { ProcessReading.processorSeconds(of: $0) }
        guard let loops = try? await self.simulator.onEachEventLoop({ ProcessReading.threadSeconds() }) else {
            return nil
        }
        let sink = loops.map { $0?.ran ?? 0 }.reduce(0, +)
        seconds[LoadProcess.sink] = sink
        seconds[LoadProcess.driver] = max(0, (ProcessReading.processorSeconds(of: getpid()) ?? 0) - sink)
        let resident = self.processes[LoadProcess.dispatcher].flatMap { ProcessReading.residentBytes(of: $0) }
        return LoadSample(
            time: self.clock.nanosecondsSince1970(),
            seconds: seconds,
            sink: loops.map { loop in loop.map { $0.ran + $0.waited } ?? 0 },
            residentBytes: resident ?? 0,
        )
    }
}
