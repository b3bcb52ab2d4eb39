import ApusCore
import ApusMessages
import ApusStreams
import ApusTestKit
import Testing

@testable import ApusDispatcher

@Suite struct UnitRemainderTests {
    private static let unit = WorkUnit(
        send: "shop/s",
        route: RouteNumber(7),
        recipients: .addresses([10, 11, 12, 13, 14, 15, 16, 17, 18, 19])
    )

    @Test func `A recipient that is marked without an outcome is unknown, and a dead letter does not bring it back`() {
        // Done are 0 and 2; marked are the first five.
        let journal = UnitJournal(sequence: 3, bitmap: [0b0000_0101, 0, 0b0001_1111, 0])
        let remainder = UnitRemainder(Self.unit, journal: journal)
        #expect(remainder.markedCount == 3)
        #expect(remainder.untouched == .addresses([15, 16, 17, 18, 19]))
        let counts = remainder.counts(.apns, .failed, .other)
        #expect(counts.map(\.reason) == [.unknown, .other] && counts.map(\.count) == [3, 5])
    }

    @Test func `Without marks every recipient without an outcome is brought back`() {
        let remainder = UnitRemainder(Self.unit, journal: UnitJournal(sequence: 1, bitmap: [0b0000_0101, 0b10]))
        #expect(remainder.markedCount == 0 && remainder.untouched == .addresses([11, 13, 14, 15, 16, 17, 18]))
        #expect(remainder.counts(.fcm, .failed, .noRoute).map(\.count) == [7])
    }

    @Test func `An unstarted unit is brought back unchanged, and a finished one not at all`() {
        #expect(UnitRemainder(Self.unit, journal: nil).untouched == Self.unit.recipients)
        let all = UnitRemainder(Self.unit, journal: UnitJournal(sequence: 1, bitmap: [0xff, 0xff]))
        #expect(all.untouched.count == 0 && all.counts(.apns, .failed, .other).isEmpty)
    }
}
