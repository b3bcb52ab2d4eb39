/// Keeps shared objects alive while requests use them, and counts the uses itself: each of the few objects in use is
/// retained once, not once per request.
struct RetainedObjectTable<Object: AnyObject> {
    private struct Entry {
        var object: Object?
        var uses: Int
    }

    private var entries: [Entry] = []
    private var free: [Int32] = []
    private var last: Int32 = -1

    /// The number of objects in the table.
    var count: Int { self.entries.count - self.free.count }

    /// Returns the object at an index; nil for a negative one.
    subscript(_ index: Int32) -> Object? { index >= 0 ? self.entries[Int(index)].object : nil }

    /// Counts another use of an object and returns its index.
    @inline(__always)
    mutating func retain(_ object: Object) -> Int32 {
        if self.last >= 0, self.entries[Int(self.last)].object === object {
            self.entries[Int(self.last)].uses += 1
            return self.last
        }
        return self.retainOther(object)
    }

    @inline(never)
    private mutating func retainOther(_ object: Object) -> Int32 {
        // The last used object is kept even without uses, until another takes its place.
        if self.last >= 0, self.entries[Int(self.last)].uses == 0 { self.drop(self.last) }
        if let index = self.entries.firstIndex(where: { $0.object === object }) {
            self.last = Int32(index)
            self.entries[index].uses += 1
        } else if let index = self.free.popLast() {
            self.entries[Int(index)] = Entry(object: object, uses: 1)
            self.last = index
        } else {
            self.entries.append(Entry(object: object, uses: 1))
            self.last = Int32(self.entries.count - 1)
        }
        return self.last
    }

    /// Counts one use less of the object at an index; a negative index does nothing.
    @inline(__always)
    mutating func release(_ index: Int32) {
        guard index >= 0 else { return }
        self.entries[Int(index)].uses -= 1
        if self.entries[Int(index)].uses == 0, index != self.last { self.drop(index) }
    }

    private mutating func drop(_ index: Int32) {
        self.entries[Int(index)].object = nil
        self.free.append(index)
        if index == self.last { self.last = -1 }
    }
}
