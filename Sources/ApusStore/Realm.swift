package import ApusCore

/// A provider together with its environment: the segment of a store key that keeps Apple's two worlds apart.
///
/// A realm of an app is exactly one `Route`, so postings, plans and work units never mix environments. A device that
/// changes its environment or provider moves from one realm to another.
package enum Realm: UInt8, CaseIterable, Sendable, Hashable {
    /// APNs, production.
    case apns = 0
    /// APNs, sandbox.
    case apnsSandbox = 1
    /// FCM.
    case fcm = 2
    /// Web Push.
    case webpush = 3

    /// The realm of a provider and environment; only APNs has a sandbox.
    package init(_ provider: Provider, _ environment: ProviderEnvironment) {
        self =
            switch (provider, environment) {
            case (.apns, .production): .apns
            case (.apns, .sandbox): .apnsSandbox
            case (.fcm, _): .fcm
            case (.webpush, _): .webpush
            }
    }

    /// The realm of a route.
    package init(_ route: Route) { self.init(route.provider, route.environment) }

    /// As it stands in keys.
    package var name: String {
        switch self {
        case .apns: "apns"
        case .apnsSandbox: "apns-sandbox"
        case .fcm: "fcm"
        case .webpush: "webpush"
        }
    }

    /// Who delivers.
    package var provider: Provider {
        switch self {
        case .apns, .apnsSandbox: .apns
        case .fcm: .fcm
        case .webpush: .webpush
        }
    }

    /// Which of the provider's worlds.
    package var environment: ProviderEnvironment { self == .apnsSandbox ? .sandbox : .production }

    /// The route of an app through this realm.
    package func route(of app: AppID) -> Route {
        Route(app: app, provider: self.provider, environment: self.environment)
    }
}
