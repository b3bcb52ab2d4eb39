/// Selects devices by topics; it is computed on postings, chunk by chunk.
///
/// Topics are numbers in it. "Not" means the rest of all devices, so it is computed against the posting of topic 0.
package indirect enum TopicExpression: Hashable, Sendable {
    /// The number under which every live device has its posting.
    package static let everyoneNumber: UInt32 = 0

    /// Every device.
    case everyone
    /// No device: a topic that has no number yet.
    case nobody
    /// The devices of a topic.
    case topic(UInt32)
    /// The devices that the operand does not select.
    case not(TopicExpression)
    /// The devices that all of these select; every device when there are none.
    case and([TopicExpression])
    /// The devices that any of these selects.
    case or([TopicExpression])

    /// The numbers of the postings that it reads, ascending.
    package var topicNumbers: [UInt32] {
        var numbers: Set<UInt32> = []
        self.collect(into: &numbers)
        return numbers.sorted()
    }

    /// Computes the selection for one chunk.
    ///
    /// - Parameter posting: lends the posting of each of `topicNumbers`.
    package func evaluate(_ posting: (UInt32) -> ChunkSet) -> ChunkSet {
        switch self {
        case .everyone:
            return posting(Self.everyoneNumber)
        case .nobody:
            return ChunkSet()
        case .topic(let number):
            return posting(number)
        case .not(let inner):
            var rest = posting(Self.everyoneNumber)
            rest.subtract(inner.evaluate(posting))
            return rest
        case .and(let parts):
            guard let first = parts.first else { return posting(Self.everyoneNumber) }
            var common = first.evaluate(posting)
            for part in parts.dropFirst() where !common.isEmpty { common.formIntersection(part.evaluate(posting)) }
            return common
        case .or(let parts):
            var union = ChunkSet()
            for part in parts { union.formUnion(part.evaluate(posting)) }
            return union
        }
    }

    /// Returns true when a device with those topics is selected; sending checks this.
    ///
    /// - Parameter isMember: returns true when the device is in the topic of that number.
    package func matches(_ isMember: (UInt32) -> Bool) -> Bool {
        switch self {
        case .everyone: true
        case .nobody: false
        case .topic(let number): isMember(number)
        case .not(let inner): !inner.matches(isMember)
        case .and(let parts): parts.allSatisfy { $0.matches(isMember) }
        case .or(let parts): parts.contains { $0.matches(isMember) }
        }
    }

    private func collect(into numbers: inout Set<UInt32>) {
        switch self {
        case .everyone:
            numbers.insert(Self.everyoneNumber)
        case .nobody:
            break
        case .topic(let number):
            numbers.insert(number)
        case .not(let inner):
            numbers.insert(Self.everyoneNumber)
            inner.collect(into: &numbers)
        case .and(let parts):
            if parts.isEmpty { numbers.insert(Self.everyoneNumber) }
            for part in parts { part.collect(into: &numbers) }
        case .or(let parts):
            for part in parts { part.collect(into: &numbers) }
        }
    }
}
