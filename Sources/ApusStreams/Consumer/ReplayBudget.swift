internal import Synchronization

/// What the shards of a process may remember together for a replay: half of it is theirs in equal parts, half is for whoever needs more,
/// because one campaign lives in one shard.
///
/// Shards that grow at the same moment may exceed it by a call each.
package final class ReplayBudget: Sendable {
    /// Bytes that each shard may keep whatever the others do.
    let guaranteed: Int
    private let sharedMax: Int
    /// Bytes beyond what is guaranteed, of all shards.
    private let shared = Atomic(0)

    /// A budget of so many bytes for so many shards.
    package init(bytesMax: Int = StreamLimits.replayBytesMax, shards: Int) {
        precondition(bytesMax >= 0 && shards > 0)
        self.guaranteed = bytesMax / 2 / shards
        self.sharedMax = bytesMax / 2
    }

    /// Bytes that a shard which has so many may have.
    func room(beside own: Int) -> Int {
        let others = self.shared.load(ordering: .relaxed) - max(0, own - self.guaranteed)
        return self.guaranteed + max(0, self.sharedMax - others)
    }

    /// A shard has changed what it keeps.
    func changed(from before: Int, to after: Int) {
        let grown = max(0, after - self.guaranteed) - max(0, before - self.guaranteed)
        if grown != 0 { self.shared.add(grown, ordering: .relaxed) }
    }
}
