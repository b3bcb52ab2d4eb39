import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusSimulator
import ApusStore
import ApusTestKit
import Testing

/// A phone that has registered a token for alerts and another for calls gets each by its own.
@Suite(.serialized) struct TokenKindTests {
    private static let kinds: [TokenKind] = [.device, .voip, .widgets]

    private static func token(_ kind: TokenKind) -> String {
        Hexadecimal.encode(Array(repeating: kind.rawValue, count: 32))
    }

    private static func device(_ kind: TokenKind) -> String { "phone-\(kind.rawValue)" }

    private static func register(_ fleet: Fleet) async throws {
        for kind in Self.kinds {
            var registration = DeviceRegistration(
                device: Self.device(kind),
                provider: .apns,
                token: Self.token(kind),
            )
            registration.tokenKind = kind
            registration.user = "ada"
            registration.topics = ["news"]
            _ = try await fleet.installation.store.register(try AppID(Fleet.app), registration)
        }
    }

    private static func counts(of send: String, _ fleet: Fleet) async throws -> [OutcomeCount] {
        try await eventually("the receipt of \(send) is there", timeout: .seconds(60)) {
            try await fleet.receipts(of: send).contains { $0.kind == .final }
        }
        return try await fleet.receipts(of: send).first { $0.kind == .final }?.counts ?? []
    }

    @Test(arguments: [false, true])
    func `A token's kind decides what is sent to it, whether by user or by topic`(isTopic: Bool) async throws {
        try await Fleet.with { fleet in
            try await Self.register(fleet)
            let dispatcher = try await fleet.startDispatcher()
            let feedback = try await fleet.startFeedback(["delete_suspects_after": "1s"])
            let target: Target = isTopic ? .topic("news") : .users(["ada"])
            for (kind, owner) in [(Notification.Kind.alert, TokenKind.device), (.voip, .voip), (.widgets, .widgets)] {
                let send = "send-\(kind.rawValue)"
                try await fleet.send(target, id: send) { command in
                    command.notification.kind = kind
                    // A notification that reloads widgets shows nothing.
                    if kind == .widgets { (command.notification.title, command.notification.body) = ("", "") }
                }
                let counts = try await Self.counts(of: send, fleet)
                #expect(counts.filter { $0.outcome == .accepted }.map(\.count) == [1])
                #expect(counts.filter { $0.reason == .notMatching }.map(\.count) == [2])
                #expect(counts.count == 2)
                #expect(fleet.accepted(of: send) == [Self.token(owner): 1])
            }
            for kind in Self.kinds {
                let device = try DeviceID(Self.device(kind))
                let kept = try await fleet.installation.store.get(try AppID(Fleet.app), device)
                #expect(kept?.record.suspicion == nil && kept != nil)
            }
            try await dispatcher.terminate()
            try await feedback.terminate()
        }
    }
}
