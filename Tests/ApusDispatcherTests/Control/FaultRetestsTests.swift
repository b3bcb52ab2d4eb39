import ApusCore
import ApusStreams
import Testing

@testable import ApusDispatcher

@Suite struct FaultRetestsTests {
    private static let second: UInt64 = 1_000_000_000
    private let route = RouteNumber(1)
    private let fault = RouteFault(.credential, "InvalidProviderToken")

    /// The seconds at which the provider is asked, of those looked at.
    private func asked(
        _ retests: inout FaultRetests,
        _ fault: RouteFault?,
        _ seconds: Range<UInt64>,
        draw: Double = 0,
        isOther: Bool = false,
    ) -> [UInt64] {
        seconds.filter { second in
            guard let fault else {
                retests.recordRunning(self.route, now: second * Self.second)
                return false
            }
            return retests.isDue(self.route, fault, isOther: isOther, now: second * Self.second, draw: draw)
        }
    }

    @Test
    func `The first check comes after a minute, each next one after twice as long, at most a quarter of an hour`() {
        var retests = FaultRetests()
        #expect(self.asked(&retests, self.fault, 0..<4_000) == [60, 180, 420, 900, 1_800, 2_700, 3_600])
    }

    @Test func `Jitter takes up to half of a wait`() {
        var retests = FaultRetests()
        #expect(self.asked(&retests, self.fault, 0..<100, draw: 0.99).first == 31)
    }

    @Test func `A fault that only an operator can restore is not checked`() {
        var retests = FaultRetests()
        #expect(self.asked(&retests, RouteFault(.configuration, "BadTopic"), 0..<4_000).isEmpty)
        #expect(self.asked(&retests, nil, 4_000..<8_000).isEmpty)
    }

    @Test func `A route that is stopped again at once waits as if it had not resumed`() {
        var retests = FaultRetests()
        #expect(self.asked(&retests, self.fault, 0..<200) == [60, 180])
        #expect(self.asked(&retests, nil, 200..<260).isEmpty)
        #expect(self.asked(&retests, self.fault, 260..<1_100) == [500, 980])
    }

    @Test func `A route that has run for a quarter of an hour begins anew`() {
        var retests = FaultRetests()
        #expect(self.asked(&retests, self.fault, 0..<200) == [60, 180])
        #expect(self.asked(&retests, nil, 200..<1_101).isEmpty)
        #expect(self.asked(&retests, self.fault, 1_101..<1_300) == [1_161, 1_281])
    }

    @Test func `After a start a stopped route is checked at once, and then no more often than others`() {
        var retests = FaultRetests(unasked: [self.route])
        #expect(self.asked(&retests, self.fault, 0..<1_000) == [0, 60, 180, 420, 900])
    }

    @Test func `Another configuration is checked until there is an answer, and one that was refused is not`() {
        let fault = RouteFault(.configuration, "BadTopic")
        var retests = FaultRetests(unasked: [self.route])
        #expect(self.asked(&retests, fault, 0..<100).isEmpty)
        #expect(self.asked(&retests, fault, 100..<300, isOther: true) == [100, 160, 280])
        retests.recordAnswer(self.route)
        #expect(self.asked(&retests, fault, 300..<4_000, isOther: true).isEmpty)
    }

    @Test func `Each route waits independently`() {
        var retests = FaultRetests()
        let asked = [(1, 0), (2, 59), (1, 60), (2, 60), (2, 119)].map { route, second in
            retests.isDue(
                RouteNumber(UInt32(route)),
                self.fault,
                isOther: false,
                now: UInt64(second) * Self.second,
                draw: 0,
            )
        }
        #expect(asked == [false, false, true, false, true])
    }
}
