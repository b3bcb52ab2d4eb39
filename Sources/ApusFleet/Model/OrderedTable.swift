/// Bytes as the key of a table. They are hashed as a whole, where an array hashes its elements one by one.
struct ByteKey: Hashable {
    let bytes: Bytes

    init(_ bytes: Bytes) { self.bytes = bytes }

    func hash(into hasher: inout Hasher) {
        unsafe self.bytes.withUnsafeBytes { bytes in unsafe hasher.combine(bytes: bytes) }
    }
}

/// A hash table that keeps the order in which its keys came, as Redis' small hashes do. So no order depends on hash values.
struct OrderedTable<Value> {
    /// The number of slots up to which a key is looked for in each of them.
    private static var smallSlotsMax: Int { 8 }

    /// The slots of the keys, while there are more slots than a small table has.
    private var places: [ByteKey: Int] = [:]
    private var slots: [(key: Bytes, value: Value)?] = []
    private(set) var count = 0

    var isEmpty: Bool { self.count == 0 }

    /// The keys and values in their order.
    var elements: some Sequence<(key: Bytes, value: Value)> { self.slots.lazy.compactMap { $0 } }
    var keys: [Bytes] { self.slots.compactMap { $0?.key } }

    private func place(of key: Bytes) -> Int? {
        guard self.slots.count <= Self.smallSlotsMax else { return self.places[ByteKey(key)] }
        for place in self.slots.indices {
            if let slot = self.slots[place], slot.key == key { return place }
        }
        return nil
    }

    private mutating func findPlaces() {
        self.places.removeAll(keepingCapacity: true)
        guard self.slots.count > Self.smallSlotsMax else { return }
        for (place, slot) in self.slots.enumerated() {
            if let slot { self.places[ByteKey(slot.key)] = place }
        }
    }

    func contains(_ key: Bytes) -> Bool { self.place(of: key) != nil }

    /// A value; setting one keeps its place, and nil removes the key.
    subscript(key: Bytes) -> Value? {
        get { self.place(of: key).flatMap { self.slots[$0]?.value } }
        set {
            guard let newValue else {
                self.remove(key)
                return
            }
            if let place = self.place(of: key) {
                self.slots[place]?.value = newValue
                return
            }
            self.slots.append((key, newValue))
            self.count += 1
            if self.slots.count == Self.smallSlotsMax + 1 {
                self.findPlaces()
            } else if self.slots.count > Self.smallSlotsMax {
                self.places[ByteKey(key)] = self.slots.count - 1
            }
        }
    }

    /// Removes a key; returns whether it was there.
    @discardableResult
    mutating func remove(_ key: Bytes) -> Bool {
        guard let place = self.place(of: key) else { return false }
        self.slots[place] = nil
        self.count -= 1
        if self.slots.count > Self.smallSlotsMax { self.places[ByteKey(key)] = nil }
        if self.slots.count > 16, self.count < self.slots.count / 2 {
            self.slots.removeAll { $0 == nil }
            self.findPlaces()
        }
        return true
    }
}

/// A sorted set: members by score, and by bytes where scores are equal.
struct SortedSet {
    struct Element {
        var score: Double
        var member: Bytes

        func precedes(_ other: Element) -> Bool {
            self.score != other.score
                ? self.score < other.score : self.member.lexicographicallyPrecedes(other.member)
        }
    }

    private(set) var elements: [Element] = []
    private var scores: [ByteKey: Double] = [:]

    var count: Int { self.elements.count }

    func score(of member: Bytes) -> Double? { self.scores[ByteKey(member)] }

    /// Sets a member's score; returns whether it is new.
    @discardableResult
    mutating func set(_ member: Bytes, _ score: Double) -> Bool {
        let isNew = !self.remove(member)
        let element = Element(score: score, member: member)
        self.elements.insert(element, at: firstIndex(of: self.elements) { !$0.precedes(element) })
        self.scores[ByteKey(member)] = score
        return isNew
    }

    /// Removes a member; returns whether it was there.
    @discardableResult
    mutating func remove(_ member: Bytes) -> Bool {
        guard let score = self.scores.removeValue(forKey: ByteKey(member)) else { return false }
        let element = Element(score: score, member: member)
        self.elements.remove(at: firstIndex(of: self.elements) { !$0.precedes(element) })
        return true
    }

    /// Removes the elements at these places.
    mutating func remove(at range: Range<Int>) {
        for element in self.elements[range] { self.scores[ByteKey(element.member)] = nil }
        self.elements.removeSubrange(range)
    }
}

/// Returns the first index of a sorted list whose element is not before the place that is looked for.
func firstIndex<Element>(of elements: [Element], where isReached: (Element) -> Bool) -> Int {
    var (low, high) = (0, elements.count)
    while low < high {
        let middle = (low + high) / 2
        if isReached(elements[middle]) { high = middle } else { low = middle + 1 }
    }
    return low
}
