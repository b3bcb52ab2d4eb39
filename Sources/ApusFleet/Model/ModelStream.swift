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

    var reply: ModelReply {
        var bytes: Bytes = []
        bytes.reserveCapacity(24)
        bytes.appendDigits(of: self.milliseconds)
        bytes.append(UInt8(ascii: "-"))
        bytes.appendDigits(of: self.sequence)
        return .bulk(bytes)
    }

    /// Parses `ms-seq` or `ms`.
    ///
    /// - Parameter missing: the sequence of an id that names none.
    static func parse(_ bytes: Bytes, missing: UInt64) throws(CommandFault) -> EntryID {
        let end = bytes.firstIndex(of: 0x2d) ?? bytes.count
        guard let milliseconds = Self.number(bytes, 0..<end) else { throw .streamID }
        guard end < bytes.count else { return EntryID(milliseconds: milliseconds, sequence: missing) }
        guard let sequence = Self.number(bytes, (end + 1)..<bytes.count) else { throw .streamID }
        return EntryID(milliseconds: milliseconds, sequence: sequence)
    }

    private static func number(_ bytes: Bytes, _ range: Range<Int>) -> UInt64? {
        guard !range.isEmpty else { return nil }
        var number: UInt64 = 0
        for index in range {
            guard (0x30...0x39).contains(bytes[index]) else { return nil }
            let (tens, isTooLarge) = number.multipliedReportingOverflow(by: 10)
            let (sum, overflows) = tens.addingReportingOverflow(UInt64(bytes[index] - 0x30))
            guard !isTooLarge, !overflows else { return nil }
            number = sum
        }
        return number
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
