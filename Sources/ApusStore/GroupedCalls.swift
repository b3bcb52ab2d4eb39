internal import ApusCore

/// Performs calls for many elements, those of one partition together: at most `StoreLimits.registrationsPerCallMax` of them,
/// and roughly `StoreLimits.registrationBytesPerCallMax` bytes. They begin at once, a bounded number at a time, so the calls of several
/// of these may be on their way beside each other.
struct GroupedCalls<Element, Answer: Sendable> {
    /// The number of calls that are on their way at once.
    private static var begunMax: Int { 64 }

    /// The elements that the calls are for.
    let elements: [Element]

    private let calls: StoreCalls
    private let groups: [CallGroup]
    private let call: (Int, [Element]) -> StoreCalls.UnsentCall<[Answer]>
    /// The calls that have begun, in the order of the groups.
    private var begun: [StoreCalls.SentCall<[Answer]>] = []

    /// Begins the calls.
    ///
    /// - Parameters:
    ///   - bytes: bytes that an element takes in a call, roughly.
    ///   - call: returns the call for elements of a partition, whose answer has one for each of them.
    init(
        _ calls: StoreCalls,
        _ elements: [Element],
        by partition: (Element) -> Int,
        bytes: (Element) -> Int = { _ in 0 },
        _ call: @escaping (Int, [Element]) -> StoreCalls.UnsentCall<[Answer]>,
    ) {
        self.calls = calls
        self.elements = elements
        self.call = call
        var groups: [CallGroup] = []
        if elements.count == 1 {
            groups.append(CallGroup(partition: partition(elements[0]), index: 0, byteCount: 0))
        } else {
            var lastGroup: [Int: Int] = [:]
            for (index, element) in elements.enumerated() {
                let (place, size) = (partition(element), bytes(element))
                if let last = lastGroup[place], groups[last].takes(size) {
                    groups[last].add(index, size)
                } else {
                    lastGroup[place] = groups.count
                    groups.append(CallGroup(partition: place, index: index, byteCount: size))
                }
            }
        }
        self.groups = groups
        while self.begun.count < Swift.min(Self.begunMax, groups.count) { self.beginNext() }
    }

    /// Awaits the answers. Where a call for several elements fails for another reason than an outage, each is called for by itself, so that
    /// the cause stays with its own.
    ///
    /// - Returns: the answers in the order of the elements.
    mutating func answers() async -> [Result<Answer, StoreError>] {
        var ordered = [Result<Answer, StoreError>?](repeating: nil, count: self.elements.count)
        for (number, group) in self.groups.enumerated() {
            let answers = await self.answers(self.begun[number], group)
            if self.begun.count < self.groups.count { self.beginNext() }
            for (index, answer) in zip(group.indices, answers) { ordered[index] = answer }
        }
        return ordered.compactMap(\.self)
    }

    private mutating func beginNext() {
        let group = self.groups[self.begun.count]
        self.begun.append(self.calls.begin(self.call(group.partition, group.indices.map { self.elements[$0] })))
    }

    private func answers(
        _ pending: StoreCalls.SentCall<[Answer]>,
        _ group: CallGroup,
    ) async -> [Result<Answer, StoreError>] {
        do throws(StoreError) {
            let answers = try await pending.answer()
            precondition(answers.count == group.indices.count, "each element has an answer")
            return answers.map { .success($0) }
        } catch {
            guard group.indices.count > 1, error.isOfOneDevice else {
                return group.indices.map { _ in .failure(error) }
            }
            var answers: [Result<Answer, StoreError>] = []
            for index in group.indices {
                do throws(StoreError) {
                    let call = self.call(group.partition, [self.elements[index]])
                    answers += try await self.calls.answer(to: call).map { .success($0) }
                } catch {
                    answers.append(.failure(error))
                }
            }
            return answers
        }
    }
}

/// The elements that one call is for.
struct CallGroup: Sendable {
    let partition: Int
    /// The positions of the group's elements.
    private(set) var indices: [Int]
    private(set) var byteCount: Int

    /// Creates a group of one element.
    init(partition: Int, index: Int, byteCount: Int) {
        self.partition = partition
        self.indices = [index]
        self.byteCount = byteCount
    }

    /// Returns true when an element of that many bytes may join.
    func takes(_ bytes: Int) -> Bool {
        self.indices.count < StoreLimits.registrationsPerCallMax
            && self.byteCount + bytes <= StoreLimits.registrationBytesPerCallMax
    }

    /// Lets an element join.
    mutating func add(_ index: Int, _ bytes: Int) {
        self.indices.append(index)
        self.byteCount += bytes
    }
}
