internal import ApusRedis
internal import Synchronization

/// Keeps the calls that wrote something recently, oldest first, bounded by age and by bytes. It is pure.
struct ReplayMemory {
    /// Holds a call that was answered.
    struct Call {
        /// The call to repeat. It is encoded only then.
        var call: any FunctionCall
        /// The entry that the call is about, which must be ours first; nil when it needs none.
        var entry: EntryName?
        /// The approximate size of the call and of what keeps it.
        var byteCount: Int
        var at: ContinuousClock.Instant

        /// - Parameter byteCount: the approximate size of the call.
        init(_ call: any FunctionCall, entry: EntryName?, byteCount: Int, at: ContinuousClock.Instant) {
            self.call = call
            self.entry = entry
            self.byteCount = byteCount + StreamLimits.replayCallOverheadBytes
            self.at = at
        }

        /// The command that repeats the call.
        var command: RedisCommand { self.call.command }
        /// True when the call brings back entries that later calls may be about.
        var restoresEntries: Bool { self.call is any RestoringCall }
    }

    /// The limit in bytes, which takes effect at the next change.
    var bytesMax: Int
    private let age: Duration
    private var kept: [Call] = []
    /// The index of the oldest call that is kept; the array is cut when most of it is forgotten.
    private var first = 0
    private(set) var byteCount = 0

    init(bytesMax: Int, age: Duration = StreamLimits.replayAge) {
        precondition(bytesMax >= 0 && age > .zero)
        self.bytesMax = bytesMax
        self.age = age
    }

    /// The calls, oldest first.
    var calls: ArraySlice<Call> { self.kept[self.first...] }

    /// Keeps a call, and returns how many others were forgotten early for lack of room.
    mutating func keep(_ call: Call) -> Int {
        self.kept.append(call)
        self.byteCount += call.byteCount
        return self.forget(call.at)
    }

    /// Forgets calls that are too old, and returns how many were forgotten early because there is less room.
    @discardableResult
    mutating func expire(_ now: ContinuousClock.Instant) -> Int { self.forget(now) }

    /// Returns the call that an entry was admitted by; nil when there is none.
    func admission(of entry: EntryName) -> AdmitSendCall? {
        self.calls.lazy.compactMap { $0.call as? AdmitSendCall }.first { $0.entry == entry }
    }

    /// Forgets that an entry was admitted.
    mutating func forgetAdmission(of entry: EntryName) {
        for index in self.calls.indices.reversed() where (self.kept[index].call as? AdmitSendCall)?.entry == entry {
            self.byteCount -= self.kept.remove(at: index).byteCount
        }
    }

    private mutating func forget(_ now: ContinuousClock.Instant) -> Int {
        var dropped = 0
        while self.first < self.kept.count {
            let oldest = self.kept[self.first]
            let isOld = now - oldest.at > self.age
            guard isOld || self.byteCount > self.bytesMax else { break }
            self.byteCount -= oldest.byteCount
            self.first += 1
            dropped += isOld ? 0 : 1
        }
        if self.first * 2 > self.kept.count {
            self.kept.removeFirst(self.first)
            self.first = 0
        }
        return dropped
    }
}

/// Limits what the shards of a process keep together for a replay. Half of it is theirs in equal parts, and half is for shards that need
/// more, because one campaign lives in one shard.
///
/// Shards that grow at the same moment may exceed it by a call each.
package final class ReplayBudget: Sendable {
    /// The bytes that each shard may keep whatever the others do.
    let guaranteed: Int
    private let sharedMax: Int
    /// The bytes that all shards keep beyond what is guaranteed.
    private let shared = Atomic(0)

    /// Creates a budget in bytes for a number of shards.
    package init(bytesMax: Int = StreamLimits.replayBytesMax, shards: Int) {
        precondition(bytesMax >= 0 && shards > 0)
        self.guaranteed = bytesMax / 2 / shards
        self.sharedMax = bytesMax / 2
    }

    /// Returns the bytes that a shard may keep which keeps that many.
    func room(beside own: Int) -> Int {
        let others = self.shared.load(ordering: .relaxed) - max(0, own - self.guaranteed)
        return self.guaranteed + max(0, self.sharedMax - others)
    }

    /// Records that a shard has changed what it keeps.
    func changed(from before: Int, to after: Int) {
        let grown = max(0, after - self.guaranteed) - max(0, before - self.guaranteed)
        if grown != 0 { self.shared.add(grown, ordering: .relaxed) }
    }
}
