import ApusCore
import ApusSimulator
import Testing

@Suite struct TokenFatesTests {
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

    @Test(arguments: [Provider.apns, .fcm])
    func aScriptsTokensChangeAtTheirTimesAndNotBefore(_ provider: Provider) throws {
        let story = """
            tokens:
              - {provider: \(provider.name), token: ab, dies_ms: 1000, returns_ms: 5000}
              - {provider: \(provider.name), token: cd, expires_ms: 1000, spoils_ms: 2000, defects_ms: 3000}
              - {provider: \(provider.name), token: ef, rotates_ms: 1000, rotates_to: "0123"}
            """
        var fates = TokenFates()
        fates.adopt(try SimulatorScript(yaml: story, name: "story.yaml").tokens, start: self.now)
        func fate(_ token: String, at milliseconds: Int64) -> TokenFate? {
            let time = self.now.advanced(byMilliseconds: milliseconds)
            return fates.fate(of: TokenDigest(token, provider: provider), now: time)
        }
        let end = self.now.advanced(byMilliseconds: 1_000)
        #expect([0, 999].map { fate("ab", at: $0) } == [nil, nil])
        #expect([1_000, 4_999].map { fate("ab", at: $0) } == [.dead(since: end), .dead(since: end)])
        #expect([5_000, 1_000_000].map { fate("ab", at: $0) } == [nil, nil])
        #expect(
            [999, 1_000, 1_999, 2_000, 2_999, 3_000].map { fate("cd", at: $0) }
                == [nil, .expired(since: end), .expired(since: end), .bad, .bad, .foreign]
        )
        #expect([999, 1_000].map { fate("ef", at: $0) } == [nil, .dead(since: end)])
        #expect([0, 999, 1_000].map { fate("0123", at: $0) } == [.bad, .bad, nil])
    }

    @Test func a410CarriesTheTimeOfTheScript() throws {
        var fixture = try APNsFixture()
        let story = "tokens: [{provider: apns, token: \"\(APNsFixture.token)\", dies_ms: 1000, returns_ms: 3000}]"
        fixture.fates.adopt(try SimulatorScript(yaml: story, name: "story.yaml").tokens, start: fixture.now)
        let request = try fixture.request()
        func answer(at milliseconds: Int64) throws -> String {
            let answer = fixture.judge.judge(
                request,
                connection: &fixture.connection,
                fates: fixture.fates,
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
        var fates = TokenFates(deadShare: DeadShare(1, seed: 1))
        let one = TokenDigest(self.token(1), provider: .apns)
        let two = TokenDigest(self.token(2), provider: .apns)
        #expect(fates.fate(of: one, now: self.now) == .dead(since: self.now))
        fates.declare(.alive, of: one)
        fates.declare(.dead(since: UnixMilliseconds(5)), of: two)
        #expect(fates.fate(of: one, now: self.now) == nil)
        #expect(fates.fate(of: two, now: self.now) == .dead(since: UnixMilliseconds(5)))
        fates.forgetDeclared()
        fates.deadSince = UnixMilliseconds(9)
        #expect(fates.fate(of: one, now: self.now) == .dead(since: UnixMilliseconds(9)))
    }
}
