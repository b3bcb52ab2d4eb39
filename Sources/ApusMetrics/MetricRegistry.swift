internal import Synchronization

/// Holds all metrics of a process: one table of families, a shard for each owner, and the shared cells.
///
/// A scrape asks every owner for a copy of its shard, adds the copies up and renders, all outside the owners' threads.
public final class MetricRegistry: Sendable {
    /// Returns an owner's copy; nil when the owner did not answer in time or is gone, so that its last copy stays in the sum.
    public typealias Copy = @Sendable () async -> MetricSnapshot?

    /// The cells that any thread may change.
    public let shared: SharedMetrics
    /// The declarations, sorted by name.
    public var definitions: [MetricDefinition] { self.catalogue.definitions }

    private struct Owner {
        let copy: Copy
        var last: MetricSnapshot
    }

    private let catalogue: MetricCatalogue
    private let writer: ExpositionWriter
    private let owners = Mutex<[Owner]>([])
    private let collectors = Mutex<[@Sendable () async -> Void]>([])

    /// Creates a registry of a catalogue's families; none can be declared later.
    public init(_ catalogue: MetricCatalogue) {
        self.catalogue = catalogue
        self.writer = ExpositionWriter(families: catalogue.families)
        var absent: [Int] = []
        for family in catalogue.families where family.startsAbsent {
            absent += family.cell..<family.cell + family.childCount
        }
        self.shared = SharedMetrics(
            cellCount: catalogue.cellCount,
            sumCount: catalogue.sumCount,
            exemplarCount: catalogue.exemplarCount,
            bounds: catalogue.bounds,
            absent: absent,
        )
    }

    /// Creates the cells of an owner, all 0. The owner keeps them to itself and registers a function that copies them.
    public func makeShard() -> sending MetricShard {
        MetricShard(
            cellCount: self.catalogue.cellCount,
            sumCount: self.catalogue.sumCount,
            exemplarCount: self.catalogue.exemplarCount,
            bounds: self.catalogue.bounds,
        )
    }

    /// Registers an owner: every scrape calls `copy`, from any task.
    public func register(_ copy: @escaping Copy) {
        let empty = MetricSnapshot(
            cells: [Int64](repeating: 0, count: self.catalogue.cellCount),
            sums: [Double](repeating: 0, count: self.catalogue.sumCount),
            exemplars: [MetricExemplar](repeating: .none, count: self.catalogue.exemplarCount),
        )
        self.owners.withLock { $0.append(Owner(copy: copy, last: empty)) }
    }

    /// Registers a function that runs before each scrape and reads counts from elsewhere into the shared cells.
    public func addCollector(_ collector: @escaping @Sendable () async -> Void) {
        self.collectors.withLock { $0.append(collector) }
    }

    /// Registers a counter whose total is kept elsewhere and read before each scrape.
    public func mirror(_ counter: Counter, total: @escaping @Sendable () -> Int) {
        self.addCollector { [shared = self.shared] in shared.mirror(Int64(total()), in: counter) }
    }

    /// Returns the exposition that answers a scrape.
    public func exposition(_ format: ExpositionFormat) async -> [UInt8] {
        self.writer.render(await self.collect(), as: format)
    }

    func collect() async -> MetricSnapshot {
        for collector in self.collectors.withLock({ $0 }) { await collector() }
        let copies = self.owners.withLock { $0.map(\.copy) }
        await withTaskGroup(of: (Int, MetricSnapshot?).self) { group in
            for (index, copy) in copies.enumerated() {
                group.addTask { (index, await copy()) }
            }
            for await (index, snapshot) in group {
                guard let snapshot else { continue }
                self.owners.withLock { $0[index].last = snapshot }
            }
        }
        var total = self.shared.snapshot()
        self.owners.withLock { owners in
            for owner in owners { total.add(owner.last) }
        }
        return total
    }
}
