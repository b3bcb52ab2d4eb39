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
