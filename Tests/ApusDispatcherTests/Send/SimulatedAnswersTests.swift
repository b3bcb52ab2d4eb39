import ApusAPNs
import ApusCore
import ApusFCM
import ApusProviders
import Testing

@testable import ApusSimulator

/// Tests that the providers' tables know every answer that the simulator gives by name.
@Suite struct SimulatedAnswersTests {
    @Test func `Every reason of Apple's can be simulated by its name, with its status`() throws {
        let words = Set(SimulatedAPNs.reasons(of: .apns))
        #expect(words.isSuperset(of: APNsReason.allCases.map(\.rawValue)))
        for word in words {
            let answer = try #require(
                SimulatedAPNs.answer(reason: word, route: .apns, id: nil, now: UnixMilliseconds(7))
            )
            let parsed = APNsAnswer(status: answer.status, body: answer.body)
            let reason = try #require(APNsReason(word: word), "\(word)")
            #expect(parsed.word == word && reason.status == answer.status)
        }
        #expect(words.contains("Service Unavailable"))
    }

    private static let google: [(String, DeliveryOutcome)] = [
        ("INVALID_ARGUMENT", .suspect(.badToken)), ("INVALID_ARGUMENT_PAYLOAD", .rejected(.payload)),
        ("INVALID_ARGUMENT_APNS_UNREGISTERED", .unregistered(.unregistered, asOf: nil)),
        ("INVALID_ARGUMENT_APNS_BAD_TOKEN", .suspect(.badToken)),
        ("UNREGISTERED", .unregistered(.unregistered, asOf: nil)),
        ("UNREGISTERED_APNS", .unregistered(.unregistered, asOf: nil)), ("SENDER_ID_MISMATCH", .suspect(.wrongSender)),
        ("QUOTA_EXCEEDED", .deferred(Deferral(.rateLimited, scope: .route))),
        ("QUOTA_EXCEEDED_DEVICE", .deferred(Deferral(.rateLimited, scope: .device))),
        ("QUOTA_EXCEEDED_TOPIC", .deferred(Deferral(.rateLimited, scope: .message))),
        ("THIRD_PARTY_AUTH_ERROR", .misconfigured(.thirdPartyAuth)),
        ("APNS_AUTH_ERROR", .misconfigured(.thirdPartyAuth)), ("UNSPECIFIED_ERROR", .rejected(.other)),
        ("UNAVAILABLE", .deferred(Deferral(.providerUnavailable, scope: .route))),
        ("INTERNAL", .deferred(Deferral(.providerUnavailable, scope: .message))),
        ("UNAUTHENTICATED", .misconfigured(.staleCredential)), ("PERMISSION_DENIED", .misconfigured(.credential)),
        ("NOT_FOUND", .misconfigured(.unclear)),
        ("BAD_GATEWAY", .deferred(Deferral(.providerUnavailable, scope: .route))),
        ("GATEWAY_TIMEOUT", .deferred(Deferral(.providerUnavailable, scope: .route))),
    ]

    @Test func `Every error code of Google's is in the table once`() {
        #expect(Self.google.map(\.0).sorted() == SimulatedFCM.reasons(of: .fcm).sorted())
    }

    @Test(arguments: Self.google) func `Google's error forms are classified by their names`(
        word: String,
        outcome: DeliveryOutcome
    ) throws {
        let answer = try #require(SimulatedFCM.answer(reason: word, route: .fcm, id: nil, now: UnixMilliseconds(7)))
        #expect(FCMAnswer(status: answer.status, body: answer.body).outcome() == outcome)
    }
}
