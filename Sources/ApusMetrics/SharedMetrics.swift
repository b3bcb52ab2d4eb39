internal import Synchronization

/// Holds cells that any thread may change: atomic, for values without an owner (log handler, readiness, HTTP handlers, reloads).
@safe public final class SharedMetrics: Sendable {
    // The memory is allocated and initialised in init, freed in deinit, and every access between is atomic.
    private nonisolated(unsafe) let cells: UnsafeMutablePointer<Atomic<Int64>>
    private nonisolated(unsafe) let sums: UnsafeMutablePointer<Atomic<UInt64>>
    private let cellCount: Int
    private let sumCount: Int
    private let exemplarCount: Int
    private let bounds: [Int64]

    init(cellCount: Int, sumCount: Int, exemplarCount: Int, bounds: [Int64], absent: [Int]) {
        self.cellCount = cellCount
        self.sumCount = sumCount
        self.exemplarCount = exemplarCount
        self.bounds = bounds
        unsafe self.cells = .allocate(capacity: max(1, cellCount))
        unsafe self.sums = .allocate(capacity: max(1, sumCount))
        for index in 0..<cellCount { unsafe (self.cells + index).initialize(to: Atomic(0)) }
        for index in 0..<sumCount { unsafe (self.sums + index).initialize(to: Atomic(0)) }
        for index in absent { self.store(MetricSnapshot.absent, at: index) }
    }

    deinit {
        unsafe self.cells.deinitialize(count: self.cellCount)
        unsafe self.sums.deinitialize(count: self.sumCount)
        unsafe self.cells.deallocate()
        unsafe self.sums.deallocate()
    }

    /// Adds to a counter.
    public func add(_ amount: Int64 = 1, to counter: Counter) { self.add(amount, at: counter.cell) }

    /// Sets a counter that is kept elsewhere, such as the processor time that the kernel counts.
    public func mirror(_ total: Int64, in counter: Counter) { self.store(total, at: counter.cell) }

    /// Adds to a gauge, unless it starts absent.
    public func add(_ amount: Int64, to gauge: Gauge) { self.add(amount, at: gauge.cell) }

    /// Sets a gauge, in steps of its scale.
    public func set(_ gauge: Gauge, to value: Int64) { self.store(value, at: gauge.cell) }

    /// Removes a gauge's sample until it is set again.
    public func setAbsent(_ gauge: Gauge) { self.store(MetricSnapshot.absent, at: gauge.cell) }

    /// Records one observation; see `MetricShard.observe`.
    public func observe(_ value: Int64, in histogram: Histogram) {
        precondition(histogram.bounds + histogram.boundCount <= self.bounds.count)
        precondition(histogram.sum < self.sumCount)
        let value = max(0, value)
        let bucket = unsafe self.bounds.withUnsafeBufferPointer { bounds in
            guard let start = bounds.baseAddress else { preconditionFailure("a histogram without bounds") }
            return unsafe bucketIndex(of: value, in: start + histogram.bounds, count: histogram.boundCount)
        }
        self.add(1, at: histogram.cell + bucket)
        let sum = unsafe self.sums + histogram.sum
        var seen = unsafe sum.pointee.load(ordering: .relaxed)
        while true {
            let next = (Double(bitPattern: seen) + Double(value)).bitPattern
            let (exchanged, original) = unsafe sum.pointee.weakCompareExchange(
                expected: seen,
                desired: next,
                ordering: .relaxed,
            )
            if exchanged { return }
            seen = original
        }
    }

    /// Returns what a counter has come to here, without the shards of other owners.
    package func value(of counter: Counter) -> Int64 {
        precondition(counter.cell >= 0 && counter.cell < self.cellCount)
        return unsafe self.cells[counter.cell].load(ordering: .relaxed)
    }

    func snapshot() -> MetricSnapshot {
        var snapshot = MetricSnapshot(
            cells: [],
            sums: [],
            exemplars: [MetricExemplar](repeating: .none, count: self.exemplarCount),
        )
        snapshot.cells.reserveCapacity(self.cellCount)
        for index in 0..<self.cellCount {
            snapshot.cells.append(unsafe self.cells[index].load(ordering: .relaxed))
        }
        for index in 0..<self.sumCount {
            snapshot.sums.append(Double(bitPattern: unsafe self.sums[index].load(ordering: .relaxed)))
        }
        return snapshot
    }

    private func add(_ amount: Int64, at index: Int) {
        precondition(index >= 0 && index < self.cellCount)
        unsafe self.cells[index].wrappingAdd(amount, ordering: .relaxed)
    }

    private func store(_ value: Int64, at index: Int) {
        precondition(index >= 0 && index < self.cellCount)
        unsafe self.cells[index].store(value, ordering: .relaxed)
    }
}
