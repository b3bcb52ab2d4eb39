import ApusCore
import Testing

@testable import ApusAPNs

@Suite struct APNsAdviceTests {
    @Test(
        arguments: [
            ("com.example.shop", nil), ("com.example.shop.voip", ".voip"), ("com.example.shop-voip", nil),
            ("com.example.shop.voip-ptt", ".voip-ptt"), ("a.push-type.liveactivity", ".push-type.liveactivity"),
        ] as [(String, String?)]
    )
    func `A bundle id that ends like Apple's suffixes is used unchanged, with advice`(
        id: String,
        suffix: String?
    ) throws {
        let advice = APNsProvider.advice(onBundleID: id, of: try AppID("shop"))
        #expect((advice != nil) == (suffix != nil))
        if let suffix { #expect(advice?.contains("leave out \(suffix), ") == true) }
    }
}
