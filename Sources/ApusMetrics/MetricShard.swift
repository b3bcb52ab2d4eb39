/// Holds the cells of one owner, usually an event loop: plain memory that only the owner writes, without lock or atomic.
///
/// Counting is an addition in an array:
///
///     shard[metrics.deliveries[provider, .accepted]] += 1
///     shard.observe(nanoseconds, in: metrics.latency[provider])
///
/// Not Sendable: a scrape asks the owner for a `snapshot()`.
@safe public final class MetricShard {
    @usableFromInline let cells: UnsafeMutablePointer<Int64>
    @usableFromInline let sums: UnsafeMutablePointer<Double>
    @usableFromInline let bounds: UnsafeMutablePointer<Int64>
    @usableFromInline let exemplars: UnsafeMutablePointer<MetricExemplar>
    @usableFromInline let cellCount: Int
    @usableFromInline let sumCount: Int
    @usableFromInline let boundCount: Int
    @usableFromInline let exemplarCount: Int

    init(cellCount: Int, sumCount: Int, exemplarCount: Int, bounds: [Int64]) {
        self.cellCount = cellCount
        self.sumCount = sumCount
        self.boundCount = bounds.count
        self.exemplarCount = exemplarCount
        unsafe self.cells = .allocate(capacity: max(1, cellCount))
        unsafe self.sums = .allocate(capacity: max(1, sumCount))
        unsafe self.bounds = .allocate(capacity: max(1, bounds.count))
        unsafe self.exemplars = .allocate(capacity: max(1, exemplarCount))
        unsafe self.exemplars.initialize(repeating: .none, count: exemplarCount)
        unsafe self.cells.initialize(repeating: 0, count: cellCount)
        unsafe self.sums.initialize(repeating: 0, count: sumCount)
        for (index, bound) in bounds.enumerated() {
            unsafe (self.bounds + index).initialize(to: bound)
        }
    }

    deinit {
        unsafe self.cells.deallocate()
        unsafe self.sums.deallocate()
        unsafe self.bounds.deallocate()
        unsafe self.exemplars.deallocate()
    }

    /// Returns the cell of a counter. Never assign a smaller value: readers would take it for a restart.
    @inlinable
    public subscript(_ counter: Counter) -> Int64 {
        get {
            precondition(UInt(bitPattern: counter.cell) < UInt(bitPattern: self.cellCount))
            return unsafe self.cells[counter.cell]
        }
        set {
            precondition(UInt(bitPattern: counter.cell) < UInt(bitPattern: self.cellCount))
            unsafe self.cells[counter.cell] = newValue
        }
    }

    /// Returns the cell of a gauge: this owner's share of the sum.
    @inlinable
    public subscript(_ gauge: Gauge) -> Int64 {
        get {
            precondition(UInt(bitPattern: gauge.cell) < UInt(bitPattern: self.cellCount))
            return unsafe self.cells[gauge.cell]
        }
        set {
            precondition(UInt(bitPattern: gauge.cell) < UInt(bitPattern: self.cellCount))
            unsafe self.cells[gauge.cell] = newValue
        }
    }

    /// Records one observation.
    ///
    /// - Parameters:
    ///   - value: the value in steps of the buckets' scale: nanoseconds, bytes. A negative one counts as 0, since it
    ///     would let the sum fall, which PromQL reads as a restart; clocks that disagree cause such values, and the
    ///     code that computes them counts them.
    ///   - histogram: the histogram.
    @inlinable
    public func observe(_ value: Int64, in histogram: Histogram) { _ = self.record(value, in: histogram) }

    /// Records one observation that belongs to a trace: each bucket shows its last one.
    ///
    /// - Parameter histogram: a histogram that was declared to keep exemplars; otherwise the trace is not kept.
    @inlinable
    public func observe(_ exemplar: MetricExemplar, in histogram: Histogram) {
        let bucket = self.record(exemplar.value, in: histogram)
        guard histogram.exemplar >= 0 else { return }
        precondition(histogram.exemplar + bucket < self.exemplarCount)
        unsafe self.exemplars[histogram.exemplar + bucket] = exemplar
    }

    @inlinable
    func record(_ value: Int64, in histogram: Histogram) -> Int {
        precondition(
            histogram.cell >= 0 && histogram.cell + histogram.boundCount < self.cellCount
                && histogram.sum >= 0 && histogram.sum < self.sumCount
                && histogram.bounds >= 0 && histogram.bounds + histogram.boundCount <= self.boundCount
        )
        let value = max(0, value)
        let bounds = unsafe UnsafePointer(self.bounds + histogram.bounds)
        let bucket = unsafe bucketIndex(of: value, in: bounds, count: histogram.boundCount)
        unsafe self.cells[histogram.cell + bucket] &+= 1
        unsafe self.sums[histogram.sum] += Double(value)
        return bucket
    }

    /// Returns a copy of the cells; called by the owner.
    public func snapshot() -> MetricSnapshot {
        MetricSnapshot(
            cells: unsafe Array(UnsafeBufferPointer(start: self.cells, count: self.cellCount)),
            sums: unsafe Array(UnsafeBufferPointer(start: self.sums, count: self.sumCount)),
            exemplars: unsafe Array(UnsafeBufferPointer(start: self.exemplars, count: self.exemplarCount)),
        )
    }
}

@available(*, unavailable)
extension MetricShard: Sendable {}

/// Returns the index of the first bound that is not below the value; `count` when all are.
///
/// It halves without branching, five steps for 31 bounds: a branch predictor could only guess.
@inlinable
func bucketIndex(of value: Int64, in bounds: UnsafePointer<Int64>, count: Int) -> Int {
    var start = 0
    var length = count
    while length > 1 {
        let half = length &>> 1
        let isBelow = unsafe isLess(bounds[start &+ half &- 1], value)
        start = start &+ (half & (0 &- isBelow))
        length = length &- half
    }
    return start &+ (unsafe isLess(bounds[start], value))
}

/// Returns 1 when `one` is less, otherwise 0, by the sign of the difference, which cannot overflow: neither number is negative.
@inlinable
func isLess(_ one: Int64, _ other: Int64) -> Int {
    Int(truncatingIfNeeded: UInt64(bitPattern: one &- other) &>> 63)
}
