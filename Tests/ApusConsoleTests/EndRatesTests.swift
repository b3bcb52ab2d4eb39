import ApusCore
import Testing

@testable import ApusConsole

@Suite struct EndRatesTests {
    private static let (one, two) = (SendKey(app: "shop", id: "s1"), SendKey(app: "news", id: "s1"))

    @Test func `Rates go by the time between two samples, however long these took`() {
        let start = ContinuousClock.now
        var rates = EndRates()
        rates.add([(Self.one, 1_000)], at: start)
        rates.add([(Self.one, 1_100)], at: start + .seconds(2))
        rates.add([(Self.one, 1_300)], at: start + .seconds(6))
        #expect(rates.rates(of: ["shop"]) == [0, 50, 50])
    }

    @Test func `A send that is seen for the first time counts from then on, and apps are added up`() {
        let start = ContinuousClock.now
        var rates = EndRates()
        rates.add([(Self.one, 10)], at: start)
        rates.add([(Self.one, 20), (Self.two, 5_000)], at: start + .seconds(1))
        rates.add([(Self.two, 5_001)], at: start + .seconds(2))
        #expect(rates.rates(of: ["shop"]) == [0, 10, 0])
        #expect(rates.rates(of: ["news"]) == [0, 0, 1])
        #expect(rates.rates(of: ["shop", "news"]) == [0, 10, 1])
    }
}
