internal import ApusCore

/// Caches values by key, bounded in number and cost. The least recently used entry is evicted first. Pure.
///
/// An entry that was not used for a while is no longer returned: its send may have ended meanwhile, and another send
/// may have its id.
struct LRUCache<Value> {
    /// A value with the state of its use.
    struct Entry {
        let value: Value
        fileprivate var cost = 0
        /// The position in the order of uses.
        fileprivate var use: UInt64
        fileprivate var usedAt: UnixMilliseconds
        fileprivate let insertedAt: UnixMilliseconds
        /// The maximum age, however often the entry is used; nil for no maximum.
        fileprivate var ageMillisecondsMax: Int64?
    }

    private let entriesMax: Int
    private let costMax: Int
    private let idleMillisecondsMax: Int64
    private var entries: [String: Entry] = [:]
    private var uses: UInt64 = 0
    /// The sum of the entries' costs.
    private(set) var cost = 0

    /// Creates an empty cache.
    ///
    /// - Parameter idleMillisecondsMax: the idle time after which an entry is no longer returned. It must be shorter
    ///   than the time for which a ledger is kept after its send has ended, because an id is not reused before then.
    init(
        entriesMax: Int = SendContextCache.contextsMax,
        costMax: Int = SendContextCache.contextBytesMax,
        idleMillisecondsMax: Int64 = SendContextCache.idleMillisecondsMax,
    ) {
        precondition(entriesMax > 0 && costMax >= 0 && idleMillisecondsMax > 0)
        self.entriesMax = entriesMax
        self.costMax = costMax
        self.idleMillisecondsMax = idleMillisecondsMax
    }

    var count: Int { self.entries.count }

    /// Returns the value of a key and counts the use; nil if there is none or it is too old.
    mutating func value(_ key: String, now: UnixMilliseconds) -> Value? {
        guard let entry = self.entries[key] else { return nil }
        guard !self.isIdle(entry, now), !self.isAged(entry, now) else {
            self.remove(key)
            return nil
        }
        self.uses += 1
        self.entries[key]?.use = self.uses
        self.entries[key]?.usedAt = now
        return entry.value
    }

    /// Removes and returns the entry of a key that is too old by its age alone, nil if there is none: its value still belongs to the key's send.
    mutating func takeAged(_ key: String, now: UnixMilliseconds) -> Entry? {
        guard let entry = self.entries[key], !self.isIdle(entry, now), self.isAged(entry, now) else { return nil }
        self.remove(key)
        return entry
    }

    /// Puts an entry back that was taken: as old as it was, and as long unused.
    mutating func restore(_ entry: Entry, _ key: String) {
        self.remove(key)
        self.entries[key] = entry
        self.cost += entry.cost
        self.evict(beside: key)
    }

    private func isIdle(_ entry: Entry, _ now: UnixMilliseconds) -> Bool {
        // After the clock was set back, the idle time is unknown.
        !(0...self.idleMillisecondsMax).contains(now.milliseconds(since: entry.usedAt))
    }

    private func isAged(_ entry: Entry, _ now: UnixMilliseconds) -> Bool {
        entry.ageMillisecondsMax.map { now.milliseconds(since: entry.insertedAt) > $0 } ?? false
    }

    /// Inserts a value. Its cost is 0 until it is set.
    mutating func insert(_ value: Value, _ key: String, now: UnixMilliseconds) {
        self.remove(key)
        self.uses += 1
        self.entries[key] = Entry(value: value, use: self.uses, usedAt: now, insertedAt: now)
        self.evict(beside: key)
    }

    /// Sets an entry's cost and maximum age.
    mutating func setCost(_ key: String, _ cost: Int, ageMillisecondsMax: Int64? = nil) {
        guard let entry = self.entries[key] else { return }
        self.cost += cost - entry.cost
        self.entries[key]?.cost = cost
        self.entries[key]?.ageMillisecondsMax = ageMillisecondsMax
        self.evict(beside: key)
    }

    /// Removes an entry.
    mutating func remove(_ key: String) {
        guard let entry = self.entries.removeValue(forKey: key) else { return }
        self.cost -= entry.cost
    }

    /// Evicts other entries until the limits hold. The entry of `key` stays whatever its cost, because it is about to
    /// be used.
    private mutating func evict(beside key: String) {
        while self.entries.count > self.entriesMax || self.cost > self.costMax {
            let others = self.entries.filter { $0.key != key }
            guard let oldest = others.min(by: { $0.value.use < $1.value.use }) else { return }
            self.remove(oldest.key)
        }
    }
}
