import ApusCore
import Testing

@Suite struct IdentifierTests {
    private static let printable = String(decoding: (0x21...0x7e).map { UInt8($0) }, as: UTF8.self)

    private static func letters(_ count: Int) -> String { String(repeating: "a", count: count) }

    @Test(arguments: ["a", "0", "-", "shop-2", Self.letters(32)])
    func appNames(_ text: String) throws {
        #expect(try AppID(text).text == text)
        #expect(try AppID(text).description == text)
    }

    @Test(arguments: ["", Self.letters(33), "Shop", "shop_2", "a b", "a{b}", "a:b", "é", "a\u{0}", "a\n"])
    func notAppNames(_ text: String) {
        let rule = "1 to 32 of the characters a-z, 0-9 and -"
        #expect(throws: IdentifierError(kind: "app", rule: rule)) { try AppID(text) }
    }

    @Test(arguments: ["d", "6f0f2b44-7a0a-4b53-9a51-0b7c1c7c2f10", Self.letters(128), Self.printable])
    func deviceAndUserIDs(_ text: String) throws {
        #expect(try DeviceID(text).text == text)
        #expect(try UserID(text).text == text)
    }

    @Test(arguments: ["", Self.letters(129), "a b", "a\tb", "\u{7f}", "ü", "a\u{0}"])
    func notDeviceOrUserIDs(_ text: String) {
        let rule = "1 to 128 printable ASCII characters without spaces"
        #expect(throws: IdentifierError(kind: "device id", rule: rule)) { try DeviceID(text) }
        #expect(throws: IdentifierError(kind: "user id", rule: rule)) { try UserID(text) }
    }

    @Test(arguments: ["s", "2026-11-21T10:00.campaign_7", Self.letters(64)])
    func sendIDs(_ text: String) throws { #expect(try SendID(text).text == text) }

    @Test(arguments: ["", Self.letters(65), "a b", "a/b", "a{b", "é"])
    func notSendIDs(_ text: String) {
        let error = #expect(throws: IdentifierError.self) { try SendID(text) }
        #expect(error?.kind == "send id")
    }

    @Test func topicNamesAreThoseOfFCM() throws {
        for name in ["news", "a-b_c.d~e%20", Self.letters(900)] { #expect(try TopicName(name).text == name) }
        #expect(try TopicName("/topics/news").text == "news")
        #expect(try TopicName("/topics/" + Self.letters(900)).text == Self.letters(900))
        for name in ["", "/topics/", "/topics//topics/a", "a/b", "a b", "é", Self.letters(901)] {
            let error = #expect(throws: IdentifierError.self) { try TopicName(name) }
            #expect(error?.kind == "topic")
        }
    }

    @Test func namesSortAsText() throws {
        #expect(try AppID("a") < AppID("b"))
        #expect(try TopicName("A") < TopicName("a"))
    }

    @Test func anErrorNamesTheRuleAndNeverTheRefusedText() {
        let error = #expect(throws: IdentifierError.self) { try AppID("<script>") }
        #expect(error?.description == "not a valid app: must be 1 to 32 of the characters a-z, 0-9 and -")
    }
}

@Suite struct WordTests {
    @Test func namesLeadBackToTheirWords() {
        for provider in Provider.allCases { #expect(Provider(name: provider.name) == provider) }
        for environment in ProviderEnvironment.allCases {
            #expect(ProviderEnvironment(name: environment.name) == environment)
        }
        #expect(Provider(name: "APNS") == nil)
        #expect(ProviderEnvironment(name: "") == nil)
    }

    @Test func namesAreUniqueAndSafeInKeysAndLabels() {
        let sets: [[String]] = [
            Provider.allCases.map(\.name), ProviderEnvironment.allCases.map(\.name), Lane.allCases.map(\.name),
            Outcome.allCases.map(\.name), Reason.allCases.map(\.name),
        ]
        for names in sets {
            #expect(Set(names).count == names.count)
            #expect(names.allSatisfy { name in name.utf8.allSatisfy { (0x61...0x7a).contains($0) || $0 == 0x5f } })
        }
    }

    @Test func everyOutcomeButOpenIsFinal() {
        #expect(Set(Outcome.final) == Set(Outcome.allCases).subtracting([.open]))
    }

    @Test func aRouteReadsAsAPath() throws {
        let route = Route(app: try AppID("shop"), provider: .apns, environment: .sandbox)
        #expect(route.description == "shop/apns/sandbox")
        #expect(RouteNumber(7).description == "7")
        #expect(RouteNumber(2) < RouteNumber(10))
    }
}
