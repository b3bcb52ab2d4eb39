import ApusStore
import Testing

struct ChunkSetTests {
    @Test func packedAndBitmapPostingsMeanTheSame() throws {
        let ordinals = [0, 7, 8, 63, 64, 4_095]
        var bitmap = [UInt8](repeating: 0, count: 512)
        for ordinal in ordinals { bitmap[ordinal / 8] |= 0x80 >> UInt8(ordinal % 8) }
        let packed = ordinals.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xff)] }
        #expect(set(bitmap)?.ordinals == ordinals)
        #expect(set(packed) == ChunkSet(ordinals))
        #expect(set([UInt8]()) == ChunkSet())
    }

    @Test func whatIsNoPostingIsRefused() {
        #expect(set([UInt8](repeating: 0, count: 513)) == nil)
        #expect(set([UInt8](repeating: 0, count: 514)) == nil)
        #expect(set([0]) == nil)
        #expect(set([0x10, 0x00]) == nil)
    }

    @Test func setsAreCombined() {
        let one = ChunkSet([1, 2, 3, 4_000])
        let other = ChunkSet([2, 3, 5])
        var both = one
        both.formIntersection(other)
        #expect(both.ordinals == [2, 3])
        var any = one
        any.formUnion(other)
        #expect(any.ordinals == [1, 2, 3, 5, 4_000])
        var rest = one
        rest.subtract(other)
        #expect(rest.ordinals == [1, 4_000])
        #expect(rest.count == 2 && rest.contains(4_000) && !rest.contains(2) && !rest.isEmpty)
    }

    @Test func expressionsAreComputedAgainstEveryone() {
        let postings: [UInt32: ChunkSet] = [
            0: ChunkSet([1, 2, 3, 4, 5]), 7: ChunkSet([1, 2, 3]), 8: ChunkSet([3, 4]),
        ]
        func meant(_ expression: TopicExpression) -> [Int] {
            expression.evaluate { postings[$0] ?? ChunkSet() }.ordinals
        }
        #expect(meant(.everyone) == [1, 2, 3, 4, 5])
        #expect(meant(.nobody) == [])
        #expect(meant(.not(.topic(7))) == [4, 5])
        #expect(meant(.and([.topic(7), .topic(8)])) == [3])
        #expect(meant(.or([.topic(7), .topic(8)])) == [1, 2, 3, 4])
        #expect(meant(.and([.not(.topic(7)), .not(.topic(8))])) == [5])
        #expect(meant(.and([])) == [1, 2, 3, 4, 5])
        #expect(meant(.or([])) == [])
        #expect(meant(.not(.nobody)) == [1, 2, 3, 4, 5])
    }

    @Test func anExpressionAsksOnlyForThePostingsThatItTakes() {
        #expect(TopicExpression.or([.topic(9), .and([.topic(3), .topic(9)])]).topicNumbers == [3, 9])
        #expect(TopicExpression.not(.topic(3)).topicNumbers == [0, 3])
        #expect(TopicExpression.nobody.topicNumbers == [])
    }

    @Test func theCheckAtSendAgreesWithTheSets() {
        let expression = TopicExpression.and([.or([.topic(1), .topic(2)]), .not(.topic(3))])
        for member in 0..<8 {
            let topics = Set((1...3).filter { member & 1 << ($0 - 1) != 0 }.map { UInt32($0) })
            let set = expression.evaluate { $0 == 0 || topics.contains($0) ? ChunkSet([5]) : ChunkSet() }
            #expect(expression.matches { topics.contains($0) } == set.contains(5))
        }
    }
}

private func set(_ posting: [UInt8]) -> ChunkSet? { ChunkSet(posting: posting.span) }
