/// Every request that the simulator judged: 64 bytes each, and the text of what is longer.
///
/// Thread-safe. Requests of one event loop are in order; between loops only their times tell.
public final class SimulatorLedger: Sendable {
    /// Bytes of an entry.
    package static let entryBytes = MemoryLayout<PackedEntry>.stride

    let shards: [LedgerShard]

    /// A ledger for so many event loops.
    ///
    /// - Parameters:
    ///   - keepsLongTokens: whether tokens of more than 32 bytes (FCM's) are kept, or only their digest.
    public init(shards: Int = 1, keepsLongTokens: Bool = true) {
        precondition(shards >= 1, "somebody writes")
        self.shards = (0..<shards).map { _ in LedgerShard(keepsLongTokens: keepsLongTokens) }
    }

    /// The part of one event loop.
    package func shard(_ index: Int) -> LedgerShard { self.shards[index % self.shards.count] }

    /// All that is in it now; later requests do not change it.
    public var snapshot: LedgerSnapshot { LedgerSnapshot(shards: self.shards.map(\.snapshot)) }

    /// Forgets everything.
    public func reset() { for shard in self.shards { shard.reset() } }
}
