import ApusCore
import ApusFCM
import ApusProviders
import Testing

@Suite("FCM: access tokens over time")
struct FCMTokenPolicyTests {
    private func second(_ seconds: Int64) -> UnixMilliseconds { UnixMilliseconds(seconds: 1_700_000_000 + seconds) }

    private func granted(_ text: String) -> OAuthAnswer { .granted(accessToken: text, expiresInSeconds: 3_600) }

    /// The text of the token to send with, or what else is to be done.
    private func word(_ action: FCMTokenPolicy.Action) -> String {
        switch action {
        case .use(let token): token.text
        case .useAndFetch(let token): "\(token.text), fetch"
        case .fetch: "fetch"
        case .wait: "wait"
        case .waitAndFetch(let time): "wait until \(time.milliseconds(since: self.second(0)))"
        case .pause(.refused(let refusal, _)): "pause: \(refusal)"
        case .pause(.rejectedAgain): "pause: rejected again"
        }
    }

    /// A policy that was granted `a` at second 0.
    private func serving() -> FCMTokenPolicy {
        var policy = FCMTokenPolicy()
        _ = policy.tokenNeeded(now: self.second(0))
        _ = policy.answered(self.granted("a"), now: self.second(0), draw: 0)
        return policy
    }

    @Test("D75 a thousand sends without a token make exactly one request")
    func singleFlight() {
        var policy = FCMTokenPolicy()
        let words = (0..<1_000).map { _ in self.word(policy.tokenNeeded(now: self.second(0))) }
        #expect(words[0] == "fetch")
        #expect(words.dropFirst().allSatisfy { $0 == "wait" })
        #expect(self.word(policy.answered(self.granted("a"), now: self.second(1), draw: 0)) == "a")
        #expect(self.word(policy.tokenNeeded(now: self.second(1))) == "a")
    }

    @Test("five minutes before its end a token's successor is asked for, once, and it goes on serving")
    func refreshAhead() {
        var policy = self.serving()
        #expect(self.word(policy.tokenNeeded(now: self.second(3_299))) == "a")
        #expect(self.word(policy.tokenNeeded(now: self.second(3_300))) == "a, fetch")
        #expect(self.word(policy.tokenNeeded(now: self.second(3_301))) == "a")
        #expect(self.word(policy.answered(self.granted("b"), now: self.second(3_302), draw: 0)) == "b")
    }

    @Test("D77 with the endpoint away, the token that is still valid serves until its end")
    func endpointAway() {
        var policy = self.serving()
        #expect(self.word(policy.tokenNeeded(now: self.second(3_360))) == "a, fetch")
        let away = OAuthAnswer.unavailable(retryAfterMilliseconds: nil, detail: "status 503")
        #expect(self.word(policy.answered(away, now: self.second(3_361), draw: 0.5)) == "a")
        #expect(self.word(policy.tokenNeeded(now: self.second(3_361))) == "a")
        #expect(self.word(policy.tokenNeeded(now: self.second(3_362))) == "a, fetch")
        #expect(self.word(policy.answered(away, now: self.second(3_599), draw: 0.999)) == "a")
        #expect(self.word(policy.tokenNeeded(now: self.second(3_600))) == "wait until 3600998")
        #expect(self.word(policy.tokenNeeded(now: self.second(3_601))) == "fetch")
        #expect(self.word(policy.answered(self.granted("b"), now: self.second(3_602), draw: 0)) == "b")
    }

    @Test("a failing endpoint is asked ever more rarely, and not before it said")
    func backOff() {
        var policy = FCMTokenPolicy()
        let away = OAuthAnswer.unavailable(retryAfterMilliseconds: nil, detail: "status 503")
        var now = self.second(0)
        var waits: [Int64] = []
        for _ in 0..<12 {
            #expect(self.word(policy.tokenNeeded(now: now)) == "fetch")
            guard case .waitAndFetch(let time) = policy.answered(away, now: now, draw: 0.999) else {
                Issue.record("not waiting")
                return
            }
            waits.append(time.milliseconds(since: now))
            now = time
        }
        #expect(waits.prefix(5) == [999, 1_998, 3_996, 7_992, 15_984])
        #expect(waits.last == 59_940)
        #expect(self.word(policy.tokenNeeded(now: now)) == "fetch")
        let later = OAuthAnswer.unavailable(retryAfterMilliseconds: 120_000, detail: "status 429")
        let asked = policy.answered(later, now: self.second(0), draw: 0)
        #expect(self.word(asked) == "wait until 120000")
    }

    @Test func `A clock that is set back makes no wait longer`() {
        var policy = FCMTokenPolicy()
        let away = OAuthAnswer.unavailable(retryAfterMilliseconds: nil, detail: "status 503")
        _ = policy.tokenNeeded(now: self.second(7_200))
        _ = policy.answered(away, now: self.second(7_200), draw: 0.999)
        #expect(self.word(policy.tokenNeeded(now: self.second(7_200))) == "wait until 7200999")
        #expect(self.word(policy.tokenNeeded(now: self.second(0))) == "fetch")
    }

    @Test(arguments: [1, 60, 1_800, 3_599] as [Int64])
    func `A clock that is set back by less than the longest wait makes none longer either`(step: Int64) {
        let away = OAuthAnswer.unavailable(retryAfterMilliseconds: nil, detail: "status 503")
        var policy = FCMTokenPolicy()
        _ = policy.tokenNeeded(now: self.second(7_200))
        _ = policy.answered(away, now: self.second(7_200), draw: 0.999)
        #expect(self.word(policy.tokenNeeded(now: self.second(7_200 - step))) == "fetch")
        // The same where a token that lives for a short time is not renewed at once, and is rejected meanwhile.
        var short = FCMTokenPolicy()
        _ = short.tokenNeeded(now: self.second(7_200))
        let granted = OAuthAnswer.granted(accessToken: "short", expiresInSeconds: 100)
        guard case .use(let token) = short.answered(granted, now: self.second(7_200), draw: 0) else {
            Issue.record("no token")
            return
        }
        #expect(self.word(short.tokenRejected(token, now: self.second(7_200 - step))) == "fetch")
    }

    @Test func `The longest wait that is asked for is kept with all that spreads it`() {
        var policy = FCMTokenPolicy()
        _ = policy.tokenNeeded(now: self.second(0))
        let later = OAuthAnswer.unavailable(retryAfterMilliseconds: 3_600_000, detail: "status 429")
        guard case .waitAndFetch(let time) = policy.answered(later, now: self.second(0), draw: 0.999) else {
            Issue.record("not waiting")
            return
        }
        #expect(time.milliseconds(since: self.second(0)) > 4_300_000)
        #expect(self.word(policy.tokenNeeded(now: self.second(1))).hasPrefix("wait until"))
        #expect(self.word(policy.tokenNeeded(now: time)) == "fetch")
    }

    @Test("D76 a refused account pauses until it is fixed")
    func refused() {
        var policy = FCMTokenPolicy()
        _ = policy.tokenNeeded(now: self.second(0))
        let refusal = OAuthAnswer.refused(.signature, detail: "invalid_grant: Invalid JWT Signature.")
        #expect(self.word(policy.answered(refusal, now: self.second(1), draw: 0)) == "pause: signature")
        #expect(self.word(policy.tokenNeeded(now: self.second(900))) == "pause: signature")
        policy.restored()
        #expect(self.word(policy.tokenNeeded(now: self.second(901))) == "fetch")
    }

    @Test("D76 a refusal leaves the token that is still valid in use, and pauses the account at its end")
    func refusedWhileServing() {
        var policy = self.serving()
        let refusal = OAuthAnswer.refused(.signature, detail: "invalid_grant: Invalid JWT Signature.")
        #expect(self.word(policy.tokenNeeded(now: self.second(3_300))) == "a, fetch")
        #expect(self.word(policy.answered(refusal, now: self.second(3_301), draw: 0.5)) == "a")
        #expect(self.word(policy.tokenNeeded(now: self.second(3_301))) == "a", "not at once again")
        #expect(self.word(policy.tokenNeeded(now: self.second(3_302))) == "a, fetch")
        #expect(self.word(policy.answered(refusal, now: self.second(3_303), draw: 0)) == "a")
        #expect(self.word(policy.tokenNeeded(now: self.second(3_600))) == "fetch")
        #expect(self.word(policy.answered(refusal, now: self.second(3_601), draw: 0)) == "pause: signature")
    }

    @Test("D58 a rejected token is renewed once, for however many answers; rejected again, the account pauses")
    func rejected() throws {
        var policy = self.serving()
        guard case .use(let first) = policy.tokenNeeded(now: self.second(100)) else {
            Issue.record("no token")
            return
        }
        let words = (0..<100).map { _ in self.word(policy.tokenRejected(first, now: self.second(100))) }
        #expect(words[0] == "fetch")
        #expect(words.dropFirst().allSatisfy { $0 == "wait" })
        guard case .use(let second) = policy.answered(self.granted("b"), now: self.second(101), draw: 0) else {
            Issue.record("no token")
            return
        }
        #expect(self.word(policy.tokenRejected(first, now: self.second(101))) == "b")
        #expect(self.word(policy.tokenRejected(second, now: self.second(102))) == "pause: rejected again")
        #expect(self.word(policy.tokenNeeded(now: self.second(103))) == "pause: rejected again")
    }

    @Test("a rejection long ago does not make the next one of a young token the second")
    func rejectedLongAgo() {
        var policy = self.serving()
        guard case .use(let first) = policy.tokenNeeded(now: self.second(100)) else {
            Issue.record("no token")
            return
        }
        #expect(self.word(policy.tokenRejected(first, now: self.second(100))) == "fetch")
        _ = policy.answered(self.granted("b"), now: self.second(101), draw: 0)
        // It serves for most of an hour, and is renewed in time.
        #expect(self.word(policy.tokenNeeded(now: self.second(3_500))) == "b, fetch")
        guard case .use(let third) = policy.answered(self.granted("c"), now: self.second(3_501), draw: 0) else {
            Issue.record("no token")
            return
        }
        #expect(self.word(policy.tokenRejected(third, now: self.second(3_560))) == "fetch")
        guard case .use(let fourth) = policy.answered(self.granted("d"), now: self.second(3_561), draw: 0) else {
            Issue.record("no token")
            return
        }
        #expect(self.word(policy.tokenRejected(fourth, now: self.second(3_562))) == "pause: rejected again")
    }

    @Test("a token that lives for less than the time of renewal is not renewed at once")
    func shortLived() {
        var policy = FCMTokenPolicy()
        _ = policy.tokenNeeded(now: self.second(0))
        let short = OAuthAnswer.granted(accessToken: "short", expiresInSeconds: 100)
        #expect(self.word(policy.answered(short, now: self.second(1), draw: 0)) == "short")
        #expect(self.word(policy.tokenNeeded(now: self.second(50))) == "short")
        #expect(self.word(policy.tokenNeeded(now: self.second(51))) == "short, fetch")
    }

    @Test("a token that served for a while and is then rejected is simply renewed")
    func rejectedLater() {
        var policy = self.serving()
        for round in Int64(0)..<3 {
            let now = self.second(1_000 * (round + 1))
            guard case .use(let token) = policy.tokenNeeded(now: now) else {
                Issue.record("no token")
                return
            }
            #expect(self.word(policy.tokenRejected(token, now: now)) == "fetch")
            _ = policy.answered(self.granted("t\(round)"), now: now, draw: 0)
        }
    }
}
