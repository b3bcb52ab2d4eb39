internal import ApusCore
internal import ApusProviders
internal import ApusService
internal import Synchronization

/// Which of Apple's topics the routes' credentials serve: what is outside is refused before it is sent.
final class TopicScopes: Sendable {
    private let scopes = Mutex<[RouteNumber: APNsTopicScope]>([:])

    /// A route's; one that nothing is known of serves all of its team.
    subscript(route: RouteNumber) -> APNsTopicScope {
        get { self.scopes.withLock { $0[route] ?? .team } }
        set { self.scopes.withLock { $0[route] = newValue } }
    }
}

extension APNsSettings {
    /// What the configuration by itself says; a certificate's file may say more.
    var configuredScope: APNsTopicScope {
        guard let topics = self.topics else { return .team }
        return switch self.credential {
        case .key: .bundleIDs(topics)
        case .certificate: .topics(topics)
        }
    }
}
