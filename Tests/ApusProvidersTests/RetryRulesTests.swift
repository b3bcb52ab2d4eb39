import ApusAPNs
import ApusCore
import ApusFCM
import ApusProviders
import ApusWebPush
import NIOCore
import Testing

@Suite("Retry rules")
struct RetryRulesTests {
    private static func rules(_ provider: Provider) -> RetryRules { provider == .apns ? .apns : .fcm }

    private let start = UnixMilliseconds(seconds: 1_700_000_000)

    /// Returns the times of the tries, in milliseconds from the first, until the retry is given up.
    private func tries(
        _ outcome: DeliveryOutcome,
        at provider: Provider,
        draw: Double,
        expiresAt: UnixMilliseconds? = nil
    ) -> [Int64] {
        var now = self.start
        var times: [Int64] = [0]
        for attempt in UInt32(1)...100 {
            let decision = Self.rules(provider).decide(
                outcome,
                attempt: attempt,
                firstAttemptAt: self.start,
                now: now,
                expiresAt: expiresAt,
                draw: draw,
            )
            guard case .retry(let next) = decision else { break }
            times.append(next.milliseconds(since: self.start))
            now = next
        }
        return times
    }

    @Test(
        "D27 Apple's trouble: after a minute at least, and for fifteen minutes at least, whatever the draw",
        arguments: [0, 0.5, 0.999]
    )
    func apple(draw: Double) throws {
        let times = self.tries(.deferred(Deferral(.providerUnavailable)), at: .apns, draw: draw)
        #expect(times[1] >= 60_000)
        #expect(try #require(times.last) >= 900_000)
    }

    @Test(
        "D26 a token that changed too often is tried until Apple's twenty minutes have passed, whatever the draw",
        arguments: [0, 0.5, 0.999]
    )
    func renewedTooOften(draw: Double) throws {
        let times = self.tries(.misconfigured(.renewedTooOften), at: .apns, draw: draw)
        #expect(try #require(times.last) >= 1_200_000)
        #expect(times.count == 10)
    }

    @Test("D27 the message's expiry comes first")
    func expiry() {
        let expiresAt = self.start.advanced(byMilliseconds: 150_000)
        let outcome = DeliveryOutcome.deferred(Deferral(.providerUnavailable))
        #expect(self.tries(outcome, at: .apns, draw: 0, expiresAt: expiresAt) == [0, 60_000, 120_000])
    }

    @Test(
        "D27 what lives for a minute, such as a call, is tried again within it, and keeps to a wait that is asked for",
        arguments: [0, 0.5, 0.999]
    )
    func brief(draw: Double) throws {
        let expiresAt = self.start.advanced(byMilliseconds: 60_000)
        let times = self.tries(
            .deferred(Deferral(.providerUnavailable)),
            at: .apns,
            draw: draw,
            expiresAt: expiresAt
        )
        #expect((2...16).contains(times.count) && times[1] <= 2_000)
        #expect(try #require(times.last) < 60_000)
        let asked = DeliveryOutcome.deferred(Deferral(.providerUnavailable, retryAfterMilliseconds: 120_000))
        #expect(self.tries(asked, at: .apns, draw: draw, expiresAt: expiresAt) == [0])
    }

    @Test("D64 what lives for a minute waits as long as anything else for Google")
    func briefGoogle() {
        let expiresAt = self.start.advanced(byMilliseconds: 15_000)
        let outcome = DeliveryOutcome.deferred(Deferral(.providerUnavailable))
        #expect(self.tries(outcome, at: .fcm, draw: 0, expiresAt: expiresAt) == [0, 10_000])
    }

    @Test(
        "D64 D67 Google's trouble and silence: ten seconds at least, doubling, for an hour at most",
        arguments: [0, 0.5, 0.999]
    )
    func google(draw: Double) throws {
        for outcome in [DeliveryOutcome.deferred(Deferral(.providerUnavailable)), .lost(.timeout), .lost(.connection)] {
            let times = self.tries(outcome, at: .fcm, draw: draw)
            #expect(times[1] >= 10_000)
            #expect(try #require(times.last) <= 3_600_000)
            #expect(zip(times, times.dropFirst()).allSatisfy { $1 - $0 >= 10_000 })
        }
        let times = self.tries(.deferred(Deferral(.providerUnavailable)), at: .fcm, draw: 0.999)
        #expect(times[2] - times[1] > (times[1] - times[0]) * 3 / 2)
    }

    @Test(
        "D64 D67 with a middling draw Google is tried for most of an hour, each wait twice the one before up to the cap"
    )
    func googleToTheEnd() throws {
        for outcome in [DeliveryOutcome.deferred(Deferral(.providerUnavailable)), .lost(.timeout), .lost(.connection)] {
            let times = self.tries(outcome, at: .fcm, draw: 0.5)
            let waits = zip(times, times.dropFirst()).map { $1 - $0 }
            #expect(waits.prefix(7) == [10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 450_000])
            #expect(waits.dropFirst(6).allSatisfy { $0 == 450_000 })
            #expect((2_700_000...3_600_000).contains(try #require(times.last)))
        }
    }

    @Test("D64 the message's expiry comes before Google's hour")
    func googleExpiry() {
        let outcome = DeliveryOutcome.deferred(Deferral(.providerUnavailable))
        func tries(for milliseconds: Int64) -> [Int64] {
            let expiresAt = self.start.advanced(byMilliseconds: milliseconds)
            return self.tries(outcome, at: .fcm, draw: 0.5, expiresAt: expiresAt)
        }
        #expect(tries(for: 70_000) == [0, 10_000, 30_000])
        #expect(tries(for: 70_001) == [0, 10_000, 30_000, 70_000])
        let decision = RetryRules.fcm.decide(
            outcome,
            attempt: 3,
            firstAttemptAt: self.start,
            now: self.start.advanced(byMilliseconds: 30_000),
            expiresAt: self.start.advanced(byMilliseconds: 70_000),
            draw: 0.5,
        )
        #expect(decision == .expire)
    }

    @Test("D64 Google's hour ends nobody before the fifth attempt: a route may have been paused in between")
    func pausedGoogle() {
        func decide(attempt: UInt32) -> RetryPolicy.Decision? {
            RetryRules.fcm.decide(
                .deferred(Deferral(.providerUnavailable)),
                attempt: attempt,
                firstAttemptAt: self.start.advanced(byMilliseconds: -7_200_000),
                now: self.start,
                expiresAt: nil,
                draw: 0,
            )
        }
        for attempt in UInt32(1)...RetryRules.unbudgetedAttempts {
            #expect(decide(attempt: attempt) == .retry(notBefore: self.start.advanced(byMilliseconds: 10_000)))
        }
        #expect(decide(attempt: RetryRules.unbudgetedAttempts + 1) == .giveUp)
    }

    @Test(
        "D61 a wait that Google asks for ends nobody before the fifth attempt, up to a day",
        arguments: [0, 0.5, 0.9]
    )
    func longWait(draw: Double) {
        func decide(attempt: UInt32, retryAfter: Int64, age: Int64 = 0) -> RetryPolicy.Decision? {
            RetryRules.fcm.decide(
                .deferred(Deferral(.rateLimited, scope: .route, retryAfterMilliseconds: retryAfter)),
                attempt: attempt,
                firstAttemptAt: self.start.advanced(byMilliseconds: -age),
                now: self.start,
                expiresAt: nil,
                draw: draw,
            )
        }
        for asked: Int64 in [3_000_000, 3_600_000, 7_200_000, 86_400_000] {
            for attempt in UInt32(1)...RetryRules.unbudgetedAttempts {
                guard case .retry(let time) = decide(attempt: attempt, retryAfter: asked) else {
                    Issue.record("attempt \(attempt), \(asked) ms")
                    continue
                }
                #expect((asked...asked + asked / 5).contains(time.milliseconds(since: self.start)))
            }
        }
        #expect(decide(attempt: 1, retryAfter: 86_400_001) == .giveUp)
        // Later the hour counts, but not what is added to the wait.
        let last = RetryRules.unbudgetedAttempts + 1
        guard case .retry(let time) = decide(attempt: last, retryAfter: 900_000, age: 2_690_000) else {
            Issue.record("an attempt fits into the hour")
            return
        }
        #expect((900_000...910_000).contains(time.milliseconds(since: self.start)))
        #expect(decide(attempt: last, retryAfter: 910_001, age: 2_690_000) == .giveUp)
    }

    @Test(
        "D104 a wait that is asked for is no reason to expire where an attempt after it fits",
        arguments: [0, 0.5, 0.9]
    )
    func longWaitBeforeTheEnd(draw: Double) {
        let decision = RetryRules.webpush.decide(
            .deferred(Deferral(.rateLimited, scope: .device, retryAfterMilliseconds: 3_600_000)),
            attempt: 1,
            firstAttemptAt: self.start,
            now: self.start,
            expiresAt: self.start.advanced(byMilliseconds: 4_000_000),
            draw: draw,
        )
        guard case .retry(let time) = decision else {
            Issue.record("\(String(describing: decision))")
            return
        }
        #expect((3_600_000..<4_000_000).contains(time.milliseconds(since: self.start)))
    }

    @Test("D67 Google's answers are awaited for ten seconds at least")
    func googleTimeout() {
        func isValid(_ provider: Provider, _ timeout: TimeAmount) -> Bool {
            var configuration = gatewayConfiguration(to: provider, port: 443)
            configuration.requestTimeout = timeout
            return configuration.isValid
        }
        #expect(gatewayConfiguration(to: .fcm, port: 443).isValid)
        #expect(isValid(.fcm, .seconds(10)))
        #expect(!isValid(.fcm, .seconds(10) - .nanoseconds(1)))
        #expect(isValid(.apns, .milliseconds(50)) && !isValid(.apns, .zero))
    }

    @Test("D61 D65 what Google asks for is a floor")
    func retryAfter() {
        for milliseconds: Int64 in [17_000, 60_000, 120_000] {
            let outcome = DeliveryOutcome.deferred(
                Deferral(.rateLimited, scope: .route, retryAfterMilliseconds: milliseconds)
            )
            #expect(self.tries(outcome, at: .fcm, draw: 0)[1] == milliseconds)
            #expect(self.tries(outcome, at: .fcm, draw: 0.999)[1] >= milliseconds)
        }
    }

    @Test("D62 a 429 of Google's that asks for nothing waits a minute")
    func quotaWithoutRetryAfter() {
        for scope in [Deferral.Scope.route, .device, .message] {
            let outcome = DeliveryOutcome.deferred(Deferral(.rateLimited, scope: scope))
            #expect(self.tries(outcome, at: .fcm, draw: 0)[1] == 60_000)
        }
    }

    @Test("a device's own rate and a new connection come back sooner than Apple's trouble")
    func sooner() {
        #expect(self.tries(.deferred(Deferral(.rateLimited, scope: .device)), at: .apns, draw: 0)[1] == 5_000)
        #expect(
            self.tries(.deferred(Deferral(.providerUnavailable, needsNewConnection: true)), at: .apns, draw: 0)[1]
                == 100
        )
        #expect(self.tries(.lost(.timeout), at: .apns, draw: 0)[1] == 100)
        #expect(self.tries(.misconfigured(.staleCredential), at: .apns, draw: 0)[1] == 100)
        #expect(self.tries(.misconfigured(.renewedTooOften), at: .apns, draw: 0)[1] == 150_000)
    }

    @Test("D31 a refused stream is sent again at once and counts no attempt, but not after its expiry")
    func free() {
        func decide(expiresAt: UnixMilliseconds?) -> RetryPolicy.Decision? {
            RetryRules.apns.decide(
                .deferred(Deferral(.connection, isFree: true)),
                attempt: 1_000,
                firstAttemptAt: self.start,
                now: self.start,
                expiresAt: expiresAt,
                draw: 0.9,
            )
        }
        #expect(decide(expiresAt: nil) == .retry(notBefore: self.start))
        #expect(decide(expiresAt: self.start) == .expire)
    }

    @Test("what is final, or waits for an operator, has no next try")
    func final() {
        let outcomes: [DeliveryOutcome] = [
            .accepted, .unregistered(.unregistered, asOf: nil), .suspect(.badToken), .rejected(.payload),
            .misconfigured(.credential), .misconfigured(.route), .misconfigured(.subroute), .misconfigured(.forbidden),
            .misconfigured(.thirdPartyAuth),
        ]
        for outcome in outcomes {
            for provider in [Provider.apns, .fcm] {
                #expect(Self.rules(provider).policy(for: outcome) == nil)
                #expect(self.tries(outcome, at: provider, draw: 0) == [0])
            }
        }
    }
}
