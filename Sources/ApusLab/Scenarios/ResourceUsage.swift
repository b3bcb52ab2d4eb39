/// The processor time and memory of a cluster's processes at one moment.
package struct ResourceSample: Hashable, Sendable {
    /// The time in nanoseconds since 1970.
    package var time: Int64
    /// The processor seconds so far, by process.
    package var seconds: [String: Double]
    /// The seconds so far that each event loop of the simulator ran or waited for a processor.
    package var sink: [Double]
    /// The bytes of memory of the dispatcher.
    package var residentBytes: Int64

    /// Creates a sample.
    package init(time: Int64, seconds: [String: Double], sink: [Double], residentBytes: Int64) {
        self.time = time
        self.seconds = seconds
        self.sink = sink
        self.residentBytes = residentBytes
    }
}

/// The processor time and memory used within a span of time.
package struct ResourceUsage: Hashable, Sendable {
    /// The processor seconds, by process.
    package var seconds: [String: Double] = [:]
    /// The share of the time that the simulator's busiest event loop ran or waited for a processor: at 1 it is saturated.
    package var sinkShare = 0.0
    /// The maximum memory of the dispatcher, in bytes.
    package var residentBytesMax: Int64 = 0

    /// Computes the usage between the last sample at or before `start` and the first at or after `end`, or between the nearest ones.
    ///
    /// - Parameter samples: the samples in order of time.
    package init(_ samples: [ResourceSample], from start: Int64, to end: Int64) {
        guard let first = samples.last(where: { $0.time <= start }) ?? samples.first,
            let last = samples.first(where: { $0.time >= end }) ?? samples.last, last.time > first.time
        else { return }
        for (name, seconds) in last.seconds { self.seconds[name] = max(0, seconds - (first.seconds[name] ?? 0)) }
        let elapsed = Double(last.time - first.time) / 1e9
        self.sinkShare = zip(last.sink, first.sink).map { ($0 - $1) / elapsed }.max() ?? 0
        let looked = samples.filter { $0.time >= first.time && $0.time <= last.time }
        self.residentBytesMax = looked.map(\.residentBytes).max() ?? 0
    }
}
