import ApusCore
import Testing

@testable import ApusDispatcher

@Suite struct SettingsAdviceTests {
    @Test(
        arguments: [
            ("com.example.shop", nil), ("com.example.shop.voip", ".voip"), ("com.example.shop-voip", nil),
            ("com.example.shop.voip-ptt", ".voip-ptt"), ("a.push-type.liveactivity", ".push-type.liveactivity"),
        ] as [(String, String?)]
    )
    func `A bundle id that ends as Apple's suffixes do is taken as it is, and told`(id: String, suffix: String?) throws
    {
        let advice = SettingsAdvice.advice(onBundleID: id, of: try AppID("shop"))
        #expect((advice != nil) == (suffix != nil))
        if let suffix { #expect(advice?.contains("leave out \(suffix), ") == true) }
    }

    @Test func `Apps of one project that together are let more than Google lets it are told`() throws {
        func advice(_ shares: [(String, String, Int?)]) throws -> [String] {
            SettingsAdvice.advice(
                on: try shares.map { SettingsAdvice.Share(app: try AppID($0.0), project: $0.1, perMinute: $0.2) }
            )
        }
        #expect(try advice([("a", "p", 600_000), ("b", "q", 600_000)]).isEmpty)
        #expect(try advice([("a", "p", 300_000), ("b", "p", 300_000)]).isEmpty)
        #expect(try advice([("a", "p", nil)]).isEmpty)
        let over = try advice([("b", "p", 600_000), ("a", "p", 600_000), ("c", "q", 1)])
        #expect(over.count == 1 && over[0].hasPrefix("the apps a, b share the project p, "))
        #expect(try advice([("a", "p", 1), ("b", "p", nil)]).count == 1)
        #expect(try advice([("a", "p", .max), ("b", "p", .max)]).count == 1)
    }
}
