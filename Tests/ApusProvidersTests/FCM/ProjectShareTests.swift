import ApusCore
import Testing

@testable import ApusFCM

@Suite struct ProjectShareTests {
    /// App, project, and -1 for a rate that is not said, 0 for none.
    private static func shares(_ shares: [(String, String, Int)]) throws -> [ProjectShare] {
        try shares.map { app, project, perMinute in
            let own = perMinute == 0 ? ProjectShare.Rate.unlimited : .own(perMinute: perMinute)
            return ProjectShare(app: try AppID(app), project: project, rate: perMinute == -1 ? .even : own)
        }
    }

    @Test func `Apps whose rates exceed their Google project's together are reported`() throws {
        func advice(_ shares: [(String, String, Int)]) throws -> [String] {
            ProjectShare.advice(on: try Self.shares(shares))
        }
        #expect(try advice([("a", "p", 600_000), ("b", "q", 600_000)]).isEmpty)
        #expect(try advice([("a", "p", 300_000), ("b", "p", 300_000)]).isEmpty)
        #expect(try advice([("a", "p", 0)]).isEmpty)
        #expect(try advice([("a", "p", -1), ("b", "p", -1), ("c", "p", 560_000)]).isEmpty)
        #expect(try advice([("a", "p", -1), ("b", "p", -1), ("c", "p", 560_001)]).count == 1)
        let over = try advice([("b", "p", 600_000), ("a", "p", 600_000), ("c", "q", 1)])
        #expect(over.count == 1 && over[0].hasPrefix("the apps a, b share the project p, "))
        #expect(try advice([("a", "p", 1), ("b", "p", 0)]).count == 1)
        #expect(try advice([("a", "p", .max), ("b", "p", .max)]).count == 1)
    }

    @Test func `D81 Apps of one project without a rate share evenly what Google allows and others leave`() throws {
        func rates(_ shares: [(String, String, Int)]) throws -> [String: Int] {
            let rates = ProjectShare.perMinute(try Self.shares(shares))
            return Dictionary(uniqueKeysWithValues: rates.map { ($0.key.text, $0.value) })
        }
        #expect(try rates([("a", "p", -1)]) == ["a": 600_000])
        #expect(try rates([("a", "p", -1), ("b", "q", -1)]) == ["a": 600_000, "b": 600_000])
        #expect(try rates([("a", "p", -1), ("b", "p", -1)]) == ["a": 300_000, "b": 300_000])
        #expect(
            try rates([("a", "p", -1), ("b", "p", 400_000), ("c", "p", -1)]) == [
                "a": 100_000, "b": 400_000, "c": 100_000,
            ]
        )
        #expect(try rates([("a", "p", -1), ("b", "p", 0)]) == ["a": 600_000])
        // More than the usual has been granted: there is nothing left to share of what is known.
        #expect(try rates([("a", "p", -1), ("b", "p", 900_000)]) == ["a": 30_000, "b": 900_000])
        #expect(try rates([("a", "p", -1), ("b", "p", .max)]) == ["a": 30_000, "b": .max])
        // The remaining rate is next to nothing: nobody is slowed down to that without a word.
        #expect(try rates([("a", "p", -1), ("b", "p", 599_999)]) == ["a": 30_000, "b": 599_999])
        for count in [1, 2, 3, 7, 64, 1_000] {
            let apps = (0..<count).map { ("a\($0)", "p", -1) }
            let sum = try rates(apps).values.reduce(0, +)
            #expect(sum <= 600_000 && sum > 600_000 - count)
        }
    }
}
