/// Maps open streams to their slots by a hash table with linear probing. Ids rise by two, so that streams are mostly
/// adjacent, each at its own index.
@safe struct StreamTable: ~Copyable {
    private struct Entry {
        var streamID: UInt32
        var slot: Int32
    }

    private let entries: UnsafeMutablePointer<Entry>
    private let mask: Int
    /// The number of streams that are not at their own index, because another was there. While there is none, a removal moves none.
    private var displaced = 0

    /// Creates a table for the given number of concurrent streams.
    init(capacity: Int) {
        var places = 2
        while places < capacity * 2 { places *= 2 }
        unsafe self.entries = .allocate(capacity: places)
        unsafe self.entries.initialize(repeating: Entry(streamID: 0, slot: -1), count: places)
        self.mask = places - 1
    }

    deinit { unsafe self.entries.deallocate() }

    @inline(__always)
    private func ownPlace(_ streamID: UInt32) -> Int { Int(streamID >> 1) & self.mask }

    /// Returns a stream's slot; -1 when there is no such stream.
    @inline(__always)
    func find(_ streamID: UInt32) -> Int32 {
        var place = self.ownPlace(streamID)
        while true {
            let entry = unsafe self.entries[place]
            if entry.streamID == streamID { return entry.slot }
            guard entry.streamID != 0 else { return -1 }
            place = (place + 1) & self.mask
        }
    }

    /// Inserts a new stream, whose id is not 0.
    @inline(__always)
    mutating func insert(_ streamID: UInt32, slot: Int32) {
        var place = self.ownPlace(streamID)
        while unsafe self.entries[place].streamID != 0 { place = (place + 1) & self.mask }
        if place != self.ownPlace(streamID) { self.displaced += 1 }
        unsafe self.entries[place] = Entry(streamID: streamID, slot: slot)
    }

    /// Removes a stream; does nothing when it is not in the table.
    @inline(__always)
    mutating func remove(_ streamID: UInt32) {
        var place = self.ownPlace(streamID)
        while unsafe self.entries[place].streamID != streamID {
            guard unsafe self.entries[place].streamID != 0 else { return }
            place = (place + 1) & self.mask
        }
        if place != self.ownPlace(streamID) { self.displaced -= 1 }
        let gap = self.displaced == 0 ? place : self.closeGap(at: place)
        unsafe self.entries[gap] = Entry(streamID: 0, slot: -1)
    }

    /// Moves up the streams that a removed one had displaced, so that no gap ends a search too early; returns the index
    /// of the remaining gap.
    @inline(never)
    private mutating func closeGap(at place: Int) -> Int {
        var gap = place
        var place = (place + 1) & self.mask
        while self.displaced > 0 {
            let entry = unsafe self.entries[place]
            guard entry.streamID != 0 else { break }
            let own = self.ownPlace(entry.streamID)
            if (place - own) & self.mask >= (place - gap) & self.mask {
                unsafe self.entries[gap] = entry
                if gap == own { self.displaced -= 1 }
                gap = place
            }
            place = (place + 1) & self.mask
        }
        return gap
    }
}
