/// A hash table that keeps the order in which its keys came, as Redis' small hashes do. So no order depends on hash values.
struct OrderedTable<Value> {
    private var places: [Bytes: Int] = [:]
    private var slots: [(key: Bytes, value: Value)?] = []

    var count: Int { self.places.count }
    var isEmpty: Bool { self.places.isEmpty }

    /// The keys and values in their order.
    var elements: some Sequence<(key: Bytes, value: Value)> { self.slots.lazy.compactMap { $0 } }
    var keys: [Bytes] { self.slots.compactMap { $0?.key } }

    func contains(_ key: Bytes) -> Bool { self.places[key] != nil }

    /// A value; setting one keeps its place, and nil removes the key.
    subscript(key: Bytes) -> Value? {
        get { self.places[key].flatMap { self.slots[$0]?.value } }
        set {
            guard let newValue else {
                self.remove(key)
                return
            }
            if let place = self.places[key] {
                self.slots[place]?.value = newValue
            } else {
                self.places[key] = self.slots.count
                self.slots.append((key, newValue))
            }
        }
    }

    /// Removes a key; returns whether it was there.
    @discardableResult
    mutating func remove(_ key: Bytes) -> Bool {
        guard let place = self.places.removeValue(forKey: key) else { return false }
        self.slots[place] = nil
        if self.slots.count > 16, self.places.count < self.slots.count / 2 { self.compact() }
        return true
    }

    private mutating func compact() {
        self.slots.removeAll { $0 == nil }
        for (place, slot) in self.slots.enumerated() {
            if let slot { self.places[slot.key] = place }
        }
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
    private var scores: [Bytes: Double] = [:]

    var count: Int { self.elements.count }

    func score(of member: Bytes) -> Double? { self.scores[member] }

    /// Sets a member's score; returns whether it is new.
    @discardableResult
    mutating func set(_ member: Bytes, _ score: Double) -> Bool {
        let isNew = !self.remove(member)
        let element = Element(score: score, member: member)
        self.elements.insert(element, at: firstIndex(of: self.elements) { !$0.precedes(element) })
        self.scores[member] = score
        return isNew
    }

    /// Removes a member; returns whether it was there.
    @discardableResult
    mutating func remove(_ member: Bytes) -> Bool {
        guard let score = self.scores.removeValue(forKey: member) else { return false }
        let element = Element(score: score, member: member)
        self.elements.remove(at: firstIndex(of: self.elements) { !$0.precedes(element) })
        return true
    }

    /// Removes the elements at these places.
    mutating func remove(at range: Range<Int>) {
        for element in self.elements[range] { self.scores[element.member] = nil }
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
