import ApusCore
import ApusSimulator
import Testing

@Suite struct TokenBehaviorsTests {
    private let now = UnixMilliseconds(1_700_000_000_000)

    private func token(_ number: Int) -> String {
        let digits = String(number, radix: 16)
        return String(repeating: "0", count: 64 - digits.utf8.count) + digits
    }

    @Test func theShareIsMetAndTheSeedRepeatsIt() {
        let share = DeadShare(0.02, seed: 42)
        let dead = (0..<50_000).filter { share.contains(self.token($0), provider: .apns) }
        #expect((850...1_150).contains(dead.count))
        #expect((0..<50_000).filter { DeadShare(0.02, seed: 42).contains(self.token($0), provider: .apns) } == dead)
        #expect((0..<50_000).filter { DeadShare(0.02, seed: 43).contains(self.token($0), provider: .apns) } != dead)
    }

    @Test func noneAndAllAreExact() {
        #expect(!(0..<1_000).contains { DeadShare(0, seed: 1).contains(self.token($0), provider: .fcm) })
        #expect((0..<1_000).allSatisfy { DeadShare(1, seed: 1).contains(self.token($0), provider: .fcm) })
    }

    @Test func upperAndLowerCaseHexadecimalIsOneAppleToken() {
        #expect(TokenDigest("ABCDEF", provider: .apns) == TokenDigest("abcdef", provider: .apns))
        #expect(TokenDigest("ABCDEF", provider: .fcm) != TokenDigest("abcdef", provider: .fcm))
    }

    @Test func lengthsAndContentsTellTokensApart() {
        var digests: Set<TokenDigest> = []
        for length in 0...40 {
            digests.insert(TokenDigest(String(repeating: "a", count: length), provider: .fcm))
            digests.insert(TokenDigest(String(repeating: "\0", count: length), provider: .fcm))
        }
        #expect(digests.count == 81)
    }

    @Test(arguments: [
        #"{"provider":"apns","deaf":["ab"]}"#, #"{"provider":"apns","dead":[{"token":"ab","at":1,"form":"x"}]}"#,
    ])
    func `A command with an unknown member is refused`(command: String) {
        #expect(throws: SimulatorError.self) { _ = try TokenCommand(json: Array(command.utf8)) }
    }

    @Test(arguments: [Provider.apns, .fcm])
    func aScriptsTokensChangeAtTheirTimesAndNotBefore(_ provider: Provider) throws {
        let story = """
            tokens:
              - {provider: \(provider.name), token: ab, dies_ms: 1000, returns_ms: 5000}
              - {provider: \(provider.name), token: cd, expires_ms: 1000, spoils_ms: 2000, defects_ms: 3000}
              - {provider: \(provider.name), token: ef, rotates_ms: 1000, rotates_to: "0123"}
            """
        var behaviors = TokenBehaviors()
        behaviors.adopt(try SimulatorScript(yaml: story, name: "story.yaml").tokens, start: self.now)
        func behavior(_ token: String, at milliseconds: Int64) -> TokenBehavior? {
            let time = self.now.advanced(byMilliseconds: milliseconds)
            return behaviors.behavior(of: TokenDigest(token, provider: provider), now: time)
        }
        let end = self.now.advanced(byMilliseconds: 1_000)
        #expect([0, 999].map { behavior("ab", at: $0) } == [nil, nil])
        #expect([1_000, 4_999].map { behavior("ab", at: $0) } == [.dead(since: end), .dead(since: end)])
        #expect([5_000, 1_000_000].map { behavior("ab", at: $0) } == [nil, nil])
        #expect(
            [999, 1_000, 1_999, 2_000, 2_999, 3_000].map { behavior("cd", at: $0) }
                == [nil, .expired(since: end), .expired(since: end), .bad, .bad, .foreign]
        )
        #expect([999, 1_000].map { behavior("ef", at: $0) } == [nil, .dead(since: end)])
        #expect([0, 999, 1_000].map { behavior("0123", at: $0) } == [.bad, .bad, nil])
    }

    @Test func a410CarriesTheTimeOfTheScript() throws {
        var fixture = try APNsFixture()
        let story = "tokens: [{provider: apns, token: \"\(APNsFixture.token)\", dies_ms: 1000, returns_ms: 3000}]"
        fixture.behaviors.adopt(try SimulatorScript(yaml: story, name: "story.yaml").tokens, start: fixture.now)
        let request = try fixture.request()
        func answer(at milliseconds: Int64) throws -> String {
            let answer = fixture.validator.validate(
                request,
                connection: &fixture.connection,
                behaviors: fixture.behaviors,
                now: APNsFixture.now.advanced(byMilliseconds: milliseconds),
                generatedID: "",
            )
            let body = try? JSONValue(parsing: answer.body, bytesMax: 1_000)
            return "\(answer.status) \(body?["timestamp"]?.int64 ?? 0)"
        }
        #expect(try answer(at: 999) == "200 0")
        #expect(try answer(at: 2_500) == "410 \(APNsFixture.now.value + 1_000)")
        #expect(try answer(at: 3_000) == "200 0")
    }

    @Test func declarationsWinOverLots() {
        var behaviors = TokenBehaviors(deadShare: DeadShare(1, seed: 1))
        let one = TokenDigest(self.token(1), provider: .apns)
        let two = TokenDigest(self.token(2), provider: .apns)
        #expect(behaviors.behavior(of: one, now: self.now) == .dead(since: self.now))
        behaviors.declare(.alive, of: one)
        behaviors.declare(.dead(since: UnixMilliseconds(5)), of: two)
        #expect(behaviors.behavior(of: one, now: self.now) == nil)
        #expect(behaviors.behavior(of: two, now: self.now) == .dead(since: UnixMilliseconds(5)))
        behaviors = TokenBehaviors(deadShare: DeadShare(1, seed: 1), deadSince: UnixMilliseconds(9))
        #expect(behaviors.behavior(of: one, now: self.now) == .dead(since: UnixMilliseconds(9)))
    }
}
