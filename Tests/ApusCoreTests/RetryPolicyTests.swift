import ApusCore
import Testing

@Suite struct RetryPolicyTests {
    /// Two seconds, doubling to a minute, five tries; a provider may ask for ten minutes.
    private static let policy = RetryPolicy(
        baseMilliseconds: 2_000,
        capMilliseconds: 60_000,
        attemptsMax: 5,
        retryAfterMillisecondsMax: 600_000,
    )
    private static let now = UnixMilliseconds(1_000_000)
    private static let almostOne = 1.0.nextDown

    /// One question and its answer; `wait` is from now on, nil when there is no retry.
    struct Step: Sendable, CustomTestStringConvertible {
        var attempt: UInt32
        var asked: Int64?
        var expiresIn: Int64?
        var draw: Double
        var wait: Int64?
        var otherwise: RetryPolicy.Decision = .giveUp

        var testDescription: String {
            "try \(self.attempt), asked \(self.asked ?? 0), draw \(self.draw): \(self.wait.map(String.init) ?? "none")"
        }
    }

    @Test(arguments: [
        // Full jitter: anything from nothing to the ceiling, which doubles up to the cap.
        Step(attempt: 1, draw: 0, wait: 0),
        Step(attempt: 1, draw: 0.5, wait: 1_000),
        Step(attempt: 1, draw: Self.almostOne, wait: 1_999),
        Step(attempt: 2, draw: 0.5, wait: 2_000),
        Step(attempt: 3, draw: 0.5, wait: 4_000),
        Step(attempt: 4, draw: Self.almostOne, wait: 15_999),
        // The fifth try was the last.
        Step(attempt: 5, draw: 0),
        Step(attempt: 6, draw: 0),
        Step(attempt: .max, draw: 0),
        // The provider's Retry-After is a floor; up to a fifth more spreads the fleet.
        Step(attempt: 1, asked: 30_000, draw: 0, wait: 30_000),
        Step(attempt: 1, asked: 30_000, draw: 0.5, wait: 33_000),
        Step(attempt: 1, asked: 30_000, draw: Self.almostOne, wait: 35_999),
        Step(attempt: 4, asked: 1, draw: 0.5, wait: 8_000),
        Step(attempt: 1, asked: 0, draw: 0.5, wait: 1_000),
        Step(attempt: 1, asked: -5, draw: 0, wait: 0),
        Step(attempt: 1, asked: 600_000, draw: 0, wait: 600_000),
        Step(attempt: 1, asked: 600_001, draw: 0),
        Step(attempt: 1, asked: .max, draw: 0),
        // It does not buy another try.
        Step(attempt: 5, asked: 1, draw: 0),
        // A retry at the moment of expiry is too late.
        Step(attempt: 1, expiresIn: 1_001, draw: 0.5, wait: 1_000),
        Step(attempt: 1, expiresIn: 1_000, draw: 0.5, otherwise: .expire),
        Step(attempt: 1, asked: 30_000, expiresIn: 30_000, draw: 0, otherwise: .expire),
        Step(attempt: 1, expiresIn: -1, draw: 0, otherwise: .expire),
        // Retries are spread over no more than the time that the provider leaves.
        Step(attempt: 1, asked: 30_000, expiresIn: 33_000, draw: 0.5, wait: 31_500),
        Step(attempt: 1, asked: 30_000, expiresIn: 33_000, draw: Self.almostOne, wait: 32_999),
        Step(attempt: 1, asked: 30_000, expiresIn: 30_001, draw: Self.almostOne, wait: 30_000),
        // Tries end before time does.
        Step(attempt: 5, expiresIn: -1, draw: 0),
    ])
    func decides(_ step: Step) {
        let decision = Self.policy.decide(
            attempt: step.attempt,
            retryAfterMilliseconds: step.asked,
            now: Self.now,
            expiresAt: step.expiresIn.map { Self.now.advanced(byMilliseconds: $0) },
            draw: step.draw,
        )
        let expected = step.wait.map { RetryPolicy.Decision.retry(notBefore: Self.now.advanced(byMilliseconds: $0)) }
        #expect(decision == expected ?? step.otherwise)
    }

    @Test func theWaitStaysBetweenFloorAndCapWhateverTheDraw() throws {
        let policy = RetryPolicy(
            baseMilliseconds: 1_000,
            floorMilliseconds: 10_000,
            capMilliseconds: 120_000,
            attemptsMax: 200,
        )
        var generator = SeededGenerator(seed: 7)
        var longest: Int64 = 0
        for attempt: UInt32 in 1..<200 {
            let decision = policy.decide(
                attempt: attempt,
                retryAfterMilliseconds: nil,
                now: Self.now,
                expiresAt: nil,
                draw: Double.random(in: 0..<1, using: &generator),
            )
            guard case .retry(let time) = decision else {
                Issue.record("attempt \(attempt) gave \(decision)")
                return
            }
            let wait = time.milliseconds(since: Self.now)
            #expect((10_000...120_000).contains(wait))
            longest = max(longest, wait)
        }
        #expect(longest > 100_000)
    }

    @Test func aRetryBeyondAllTimeDoesNotTrap() {
        let decision = Self.policy.decide(
            attempt: 1,
            retryAfterMilliseconds: 1_000,
            now: UnixMilliseconds(.max),
            expiresAt: nil,
            draw: 0,
        )
        #expect(decision == .retry(notBefore: UnixMilliseconds(.max)))
    }

    @Test func doublingDoesNotOverflow() {
        let policy = RetryPolicy(
            baseMilliseconds: 1 << 40,
            capMilliseconds: 1 << 61,
            attemptsMax: 100,
        )
        let decision = policy.decide(
            attempt: 40,
            retryAfterMilliseconds: nil,
            now: UnixMilliseconds(0),
            expiresAt: nil,
            draw: 0.5,
        )
        #expect(decision == .retry(notBefore: UnixMilliseconds(1 << 60)))
    }

    @Test func onePolicyAllowsOneTryOnly() {
        let policy = RetryPolicy(baseMilliseconds: 1, capMilliseconds: 1, attemptsMax: 1)
        let decision = policy.decide(
            attempt: 1,
            retryAfterMilliseconds: nil,
            now: Self.now,
            expiresAt: nil,
            draw: 0,
        )
        #expect(decision == .giveUp)
    }

    @Test func nonsenseTraps() async {
        await #expect(processExitsWith: .failure) {
            _ = RetryPolicy(baseMilliseconds: 0, capMilliseconds: 1, attemptsMax: 1)
        }
        await #expect(processExitsWith: .failure) {
            _ = RetryPolicy(baseMilliseconds: 2, capMilliseconds: 1, attemptsMax: 1)
        }
        await #expect(processExitsWith: .failure) {
            let policy = RetryPolicy(baseMilliseconds: 1, capMilliseconds: 1, attemptsMax: 2)
            let now = UnixMilliseconds(0)
            _ = policy.decide(attempt: 1, retryAfterMilliseconds: nil, now: now, expiresAt: nil, draw: 1)
        }
    }

    @Test func `A provider may ask for a day, and for no more`() {
        let policy = RetryPolicy(baseMilliseconds: 2_000, capMilliseconds: 60_000, attemptsMax: 5)
        for (asked, decision) in [
            (Int64(86_400_000), RetryPolicy.Decision.retry(notBefore: Self.now.advanced(byMilliseconds: 86_400_000))),
            (86_400_001, .giveUp),
        ] {
            let found = policy.decide(
                attempt: 1,
                retryAfterMilliseconds: asked,
                now: Self.now,
                expiresAt: nil,
                draw: 0
            )
            #expect(found == decision)
        }
    }
}
