/// The id of a stream's entry.
struct EntryID: Hashable, Comparable {
    var milliseconds: UInt64
    var sequence: UInt64

    static let zero = EntryID(milliseconds: 0, sequence: 0)
    static let last = EntryID(milliseconds: .max, sequence: .max)

    static func < (one: EntryID, other: EntryID) -> Bool {
        (one.milliseconds, one.sequence) < (other.milliseconds, other.sequence)
    }

    /// The next id; nil after the last one.
    var next: EntryID? {
        if self.sequence < .max { return EntryID(milliseconds: self.milliseconds, sequence: self.sequence + 1) }
        guard self.milliseconds < .max else { return nil }
        return EntryID(milliseconds: self.milliseconds + 1, sequence: 0)
    }

    /// The id before; nil before the first one.
    var previous: EntryID? {
        if self.sequence > 0 { return EntryID(milliseconds: self.milliseconds, sequence: self.sequence - 1) }
        guard self.milliseconds > 0 else { return nil }
        return EntryID(milliseconds: self.milliseconds - 1, sequence: .max)
    }

    var reply: ModelReply { .text("\(self.milliseconds)-\(self.sequence)") }

    /// Parses `ms-seq` or `ms`.
    ///
    /// - Parameter missing: the sequence of an id that names none.
    static func parse(_ bytes: Bytes, missing: UInt64) throws(CommandFault) -> EntryID {
        let parts = bytes.split(separator: 0x2d, maxSplits: 1, omittingEmptySubsequences: false)
        guard let milliseconds = Self.number(parts[0]) else { throw .streamID }
        guard parts.count == 2 else { return EntryID(milliseconds: milliseconds, sequence: missing) }
        guard let sequence = Self.number(parts[1]) else { throw .streamID }
        return EntryID(milliseconds: milliseconds, sequence: sequence)
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> UInt64? {
        guard digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return UInt64(String(decoding: digits, as: UTF8.self))
    }
}

/// A stream with its groups.
struct ModelStream {
    struct Entry {
        var id: EntryID
        /// Fields and values in turn.
        var fields: [Bytes]
    }

    /// An entry that was delivered and not acknowledged.
    struct Pending {
        var id: EntryID
        var consumer: Bytes
        var deliveredAt: Int64
        var deliveries: Int64
    }

    struct Group {
        var lastDelivered: EntryID
        /// By id.
        var pending: [Pending] = []
        /// The time at which each consumer was seen, in ms.
        var consumers: [Bytes: Int64] = [:]

        func index(of id: EntryID) -> Int? {
            let index = firstIndex(of: self.pending) { $0.id >= id }
            return index < self.pending.count && self.pending[index].id == id ? index : nil
        }

        /// Notes a delivery; an entry that was pending changes its owner.
        mutating func deliver(_ pending: Pending) {
            let index = firstIndex(of: self.pending) { $0.id >= pending.id }
            if index < self.pending.count, self.pending[index].id == pending.id {
                self.pending[index] = pending
            } else {
                self.pending.insert(pending, at: index)
            }
        }
    }

    var entries: [Entry] = []
    var lastID = EntryID.zero
    var maxDeletedID = EntryID.zero
    var entriesAdded: Int64 = 0
    var groups: [Bytes: Group] = [:]

    func index(of id: EntryID) -> Int? {
        let index = firstIndex(of: self.entries) { $0.id >= id }
        return index < self.entries.count && self.entries[index].id == id ? index : nil
    }

    /// Returns entries between two ids, both included.
    func entries(from: EntryID, to: EntryID) -> ArraySlice<Entry> {
        guard from <= to else { return [] }
        let first = firstIndex(of: self.entries) { $0.id >= from }
        let end = firstIndex(of: self.entries) { $0.id > to }
        return self.entries[first..<end]
    }

    mutating func append(_ id: EntryID, _ fields: [Bytes]) {
        self.entries.append(Entry(id: id, fields: fields))
        self.lastID = id
        self.entriesAdded += 1
    }

    /// Deletes an entry; returns whether it was there.
    mutating func delete(_ id: EntryID) -> Bool {
        guard let index = self.index(of: id) else { return false }
        self.entries.remove(at: index)
        self.maxDeletedID = max(self.maxDeletedID, id)
        return true
    }
}

extension ModelStream.Entry {
    var reply: ModelReply { .array([self.id.reply, .array(self.fields.map { .bulk($0) })]) }
}
