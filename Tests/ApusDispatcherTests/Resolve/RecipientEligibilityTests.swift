import ApusCore
import ApusMessages
import Testing

@testable import ApusDispatcher

@Suite struct RecipientEligibilityTests {
    private typealias Eligibility = RecipientEligibility

    private static let now = UnixMilliseconds(seconds: 1_700_000_000)

    /// Decides about a device of which nothing else is to be said than what is given.
    private static func decide(
        suspicion: Reason? = nil,
        isStoredElsewhere: Bool = false,
        isInAudience: Bool = true,
        token: RecipientEligibility.Token = .own(isOfRoute: true),
        subscription: RecipientEligibility.Subscription? = nil,
    ) -> RecipientEligibility.Decision {
        RecipientEligibility.decide(
            suspicion: suspicion,
            isStoredElsewhere: isStoredElsewhere,
            isInAudience: isInAudience,
            token: token,
            subscription: subscription,
            now: Self.now,
        )
    }

    private static let plain = RecipientEligibility.Decision.send(wasRefused: false, isEnvironmentKnown: false)

    @Test func `A device of the audience is sent to, and one outside of it is skipped`() {
        #expect(Self.decide() == Self.plain)
        #expect(Self.decide(isInAudience: false) == .skip(.notMatching))
    }

    @Test func `A quarantined token is skipped, and one refused message keeps no other from it`() {
        #expect(Self.decide(suspicion: .badToken) == .skip(.badToken))
        #expect(Self.decide(suspicion: .wrongTopic) == .skip(.badToken))
        let refused = Self.decide(suspicion: DeviceRecord.Suspicion.refusedMessage)
        #expect(refused == .send(wasRefused: true, isEnvironmentKnown: false))
    }

    @Test func `A token of the other environment is sent to there only`() {
        #expect(Self.decide(suspicion: .wrongEnvironment) == .skip(.wrongEnvironment))
        #expect(Self.decide(suspicion: .wrongEnvironment, isStoredElsewhere: true) == Self.plain)
        #expect(Self.decide(suspicion: .badToken, isStoredElsewhere: true) == .skip(.badToken))
        let other = RecipientEligibility.Token.activity(isOfOtherEnvironment: true)
        #expect(Self.decide(token: other) == .skip(.wrongEnvironment))
        let elsewhere = Self.decide(isStoredElsewhere: true, token: other)
        #expect(elsewhere == .send(wasRefused: false, isEnvironmentKnown: true))
        for isStoredElsewhere in [false, true] {
            let token = RecipientEligibility.Token.activity(isOfOtherEnvironment: false)
            #expect(Self.decide(isStoredElsewhere: isStoredElsewhere, token: token) == Self.plain)
        }
    }

    @Test func `A token of another kind, a missing one and a quarantined one are skipped`() {
        #expect(Self.decide(token: .own(isOfRoute: false)) == .skip(.notMatching))
        #expect(Self.decide(token: .missing) == .skip(.notMatching))
        #expect(Self.decide(token: .quarantined) == .skip(.badToken))
    }

    @Test func `A subscription needs its keys and ends with its second`() {
        func decide(_ hasKeys: Bool, _ expiresAtSeconds: Int64) -> RecipientEligibility.Decision {
            Self.decide(subscription: .init(hasKeys: hasKeys, expiresAtSeconds: expiresAtSeconds))
        }
        #expect(decide(true, 0) == Self.plain)
        #expect(decide(true, Self.now.seconds + 1) == Self.plain)
        #expect(decide(true, Self.now.seconds) == .skip(.notMatching))
        #expect(decide(false, 0) == .skip(.malformed))
        #expect(decide(false, Self.now.seconds) == .skip(.notMatching))
    }

    @Test func `A suspicion counts before the audience, and the audience before the token`() {
        let worst = Self.decide(suspicion: .badToken, isInAudience: false, token: .own(isOfRoute: false))
        #expect(worst == .skip(.badToken))
        #expect(Self.decide(isInAudience: false, token: .quarantined) == .skip(.notMatching))
        let ended = RecipientEligibility.Subscription(hasKeys: true, expiresAtSeconds: 1)
        #expect(Self.decide(token: .quarantined, subscription: ended) == .skip(.badToken))
    }
}
