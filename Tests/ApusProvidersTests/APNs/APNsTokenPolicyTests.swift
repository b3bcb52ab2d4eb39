import ApusAPNs
import ApusCore
import ApusProviders
import Testing

@Suite("APNs: provider tokens over time")
struct APNsTokenPolicyTests {
    private let start: Int64 = 1_700_000_000

    private func minute(_ minutes: Double) -> UnixMilliseconds {
        UnixMilliseconds(seconds: self.start + Int64(minutes * 60))
    }

    @Test("D34 one token serves 10,000 sends over 50 minutes, then exactly one new one")
    func reuse() {
        var policy = APNsTokenPolicy()
        #expect(policy.tokenNeeded(now: self.minute(0)) == .sign(issuedAt: self.minute(0)))
        for send in 0..<10_000 {
            let now = self.minute(0).advanced(byMilliseconds: Int64(send) * 3_000_000 / 10_000)
            #expect(policy.tokenNeeded(now: now) == .use(issuedAt: self.minute(0)))
        }
        #expect(policy.tokenNeeded(now: self.minute(50)) == .sign(issuedAt: self.minute(50)))
        #expect(policy.tokenNeeded(now: self.minute(50)) == .use(issuedAt: self.minute(50)))
    }

    @Test("D10 a hundred answers to an expired token make exactly one new one")
    func expired() {
        var policy = APNsTokenPolicy()
        _ = policy.tokenNeeded(now: self.minute(0))
        let actions = (0..<100).map { _ in policy.tokenExpired(issuedAt: self.minute(0), now: self.minute(61)) }
        #expect(actions[0] == .sign(issuedAt: self.minute(61)))
        #expect(actions.dropFirst().allSatisfy { $0 == .use(issuedAt: self.minute(61)) })
    }

    @Test("D11 a token of five seconds called expired means a wrong clock; no third token within 20 minutes")
    func clock() {
        var policy = APNsTokenPolicy()
        _ = policy.tokenNeeded(now: self.minute(0))
        #expect(policy.tokenExpired(issuedAt: self.minute(0), now: self.minute(61)) == .sign(issuedAt: self.minute(61)))
        let soon = self.minute(61).advanced(byMilliseconds: 5_000)
        for now in [soon, self.minute(80)] {
            #expect(policy.tokenExpired(issuedAt: self.minute(61), now: now) == .waitForClock(until: self.minute(81)))
            policy.restored()
        }
        #expect(
            policy.tokenExpired(issuedAt: self.minute(61), now: self.minute(81)) == .sign(issuedAt: self.minute(81))
        )
    }

    @Test("D26 after TooManyProviderTokenUpdates the old token goes on, and no new one is signed for 20 minutes")
    func updatedTooOften() {
        var policy = APNsTokenPolicy()
        _ = policy.tokenNeeded(now: self.minute(0))
        policy.updatedTooOften(now: self.minute(45))
        #expect(policy.tokenNeeded(now: self.minute(55)) == .use(issuedAt: self.minute(0)))
        #expect(policy.tokenNeeded(now: self.minute(61)) == .wait(until: self.minute(65)))
        #expect(policy.tokenExpired(issuedAt: self.minute(0), now: self.minute(61)) == .wait(until: self.minute(65)))
        #expect(policy.tokenNeeded(now: self.minute(65)) == .sign(issuedAt: self.minute(65)))
    }

    @Test("never two tokens within 20 minutes, whatever happens")
    func interval() {
        for seed in 0..<UInt64(200) {
            var generator = SeededGenerator(seed: seed)
            var policy = APNsTokenPolicy()
            var now = self.minute(0)
            var signed: [UnixMilliseconds] = []
            for _ in 0..<200 {
                now = now.advanced(byMilliseconds: Int64.random(in: 0...600_000, using: &generator))
                let action: APNsTokenPolicy.Action
                switch Int.random(in: 0..<5, using: &generator) {
                case 0: action = policy.tokenExpired(issuedAt: policy.issuedAt ?? now, now: now)
                case 1:
                    policy.updatedTooOften(now: now)
                    action = policy.tokenNeeded(now: now)
                case 2:
                    policy.restored()
                    action = policy.tokenNeeded(now: now)
                default: action = policy.tokenNeeded(now: now)
                }
                if case .sign(let issuedAt) = action { signed.append(issuedAt) }
                if case .use(let issuedAt) = action {
                    #expect(now.milliseconds(since: issuedAt) < APNsTokenPolicy.ageMillisecondsMax, "seed \(seed)")
                }
            }
            let gaps = zip(signed, signed.dropFirst()).map { $1.milliseconds(since: $0) }
            #expect(gaps.allSatisfy { $0 >= APNsTokenPolicy.intervalMillisecondsMin }, "seed \(seed)")
        }
    }

    @Test("a token shared by another process is used, and starts the interval; an older one is not")
    func shared() {
        var policy = APNsTokenPolicy()
        policy.tokenShared(issuedAt: self.minute(0))
        #expect(policy.tokenNeeded(now: self.minute(10)) == .use(issuedAt: self.minute(0)))
        policy.tokenShared(issuedAt: self.minute(-10))
        #expect(policy.tokenNeeded(now: self.minute(10)) == .use(issuedAt: self.minute(0)))
        policy.tokenShared(issuedAt: self.minute(50))
        #expect(policy.tokenNeeded(now: self.minute(51)) == .use(issuedAt: self.minute(50)))
        #expect(policy.tokenExpired(issuedAt: self.minute(0), now: self.minute(61)) == .use(issuedAt: self.minute(50)))
    }

    @Test func `A token that was signed while the clock was ahead is replaced when it is right`() {
        var policy = APNsTokenPolicy()
        #expect(policy.tokenNeeded(now: self.minute(120)) == .sign(issuedAt: self.minute(120)))
        #expect(policy.tokenNeeded(now: self.minute(110)) == .use(issuedAt: self.minute(120)))
        #expect(policy.tokenNeeded(now: self.minute(0)) == .sign(issuedAt: self.minute(0)))
        policy.tokenShared(issuedAt: self.minute(180))
        let next = policy.tokenExpired(issuedAt: self.minute(180), now: self.minute(30))
        #expect(next == .sign(issuedAt: self.minute(30)))
    }

    @Test("a key that signs nothing pauses until it is fixed")
    func unusable() {
        var policy = APNsTokenPolicy()
        _ = policy.tokenNeeded(now: self.minute(0))
        policy.signingFailed()
        #expect(policy.tokenNeeded(now: self.minute(1)) == .pause)
        #expect(policy.tokenExpired(issuedAt: self.minute(0), now: self.minute(61)) == .pause)
        policy.restored()
        // There is no token to go on with, and none to wait for.
        #expect(policy.tokenNeeded(now: self.minute(2)) == .sign(issuedAt: self.minute(2)))
    }
}
