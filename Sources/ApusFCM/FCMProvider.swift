internal import ApusAPNs
package import ApusCore
package import ApusMessages
package import ApusProviders
package import ApusService

/// The provider Firebase Cloud Messaging, HTTP v1.
package struct FCMProvider: PushProvider {
    /// Creates the provider.
    package init() {}

    package var traits: ProviderTraits { Provider.fcm.traits }

    package var retryRules: RetryRules { .fcm }

    package var settingDescriptions: [String: String] { FCMSettings.descriptions }

    package func readSettings(_ reader: SettingsReader, at key: String) -> any ProviderSettings {
        FCMSettings(reader, at: key)
    }

    package func routes(of apps: [AppID: AppSettings]) throws -> [any ProviderRoute] {
        let shares = ProjectShare.perMinute(ProjectShare.all(in: apps))
        return try apps.compactMap { app, settings in
            guard let fcm = settings.fcm else { return nil }
            return try FCMRoute(
                Route(app: app, provider: .fcm, environment: .production),
                fcm,
                rate: shares[app].map { .perMinute($0) } ?? .unlimited,
            )
        }
    }

    package func credentialSource(
        of route: Route,
        _ settings: any ProviderSettings,
    ) throws(SettingsError) -> (any CredentialSource)? {
        guard let fcm = settings as? FCMSettings, route.environment == .production else { return nil }
        return try FCMCredentialSource(fcm, route)
    }

    package func check(_ target: Target) throws(Problem) { _ = try FCMTarget(target) }

    package func check(_ notification: Notification, _ context: RenderContext) throws(Problem) {
        _ = try FCMRenderer.render(notification, target: .token, context: context)
    }

    /// Warns about projects of several apps whose own rates together exceed Google's limit: apps without a rate stay within it.
    package func advice(on apps: [AppID: AppSettings]) -> [String] {
        ProjectShare.advice(on: ProjectShare.all(in: apps))
    }

    // MARK: Advice on a notification

    /// The seconds before and after each quarter of an hour in which Google asks not to start sends, because everybody does.
    static let busySeconds: Int64 = 120

    /// The minimum number of recipients for which a send that begins at once gets a warning about the busy minutes:
    /// fewer are sent within a second, at the 10,000 a second that Google grants a project.
    static let busyRecipientsMin: UInt64 = 10_000

    package func advice(
        on command: SendCommand,
        _ renderings: [RouteRendering],
        recipients: UInt64,
        now: UnixMilliseconds,
    ) -> [Problem] {
        let notification = command.notification
        var advice: [Problem] = []
        // FCM wakes an iOS app within Apple's limits.
        if notification.kind == .background {
            advice.append(APNsProvider.backgroundAdvice("notification.kind"))
        } else if notification.kind == .alert, notification.fcmAPNsStyle == .data {
            advice.append(APNsProvider.backgroundAdvice("notification.fcm_apns_style"))
        }
        // https://firebase.google.com/docs/cloud-messaging/throttling-and-quotas and
        // https://firebase.google.com/docs/cloud-messaging/customize-messages/collapsible-message-types
        if !notification.collapseKey.isEmpty {
            advice.append(
                Problem(
                    code: "collapse",
                    field: "notification.collapse_key",
                    detail:
                        "FCM keeps four keys for a device, and delivers twenty at once, then one in three minutes: it delays the rest",
                )
            )
        }
        return advice + Self.holderAdvice(command.target) + Self.scheduleAdvice(command, recipients, now: now)
    }

    /// Source: https://firebase.google.com/docs/cloud-messaging/topic-messaging
    private static func holderAdvice(_ target: Target) -> [Problem] {
        let field: String
        switch target {
        case .fcmTopic: field = "target.fcm_topic"
        case .fcmCondition: field = "target.fcm_condition"
        case .addresses, .devices, .users, .topic, .condition, .expression, .everyone, .fcmGroup, .apnsChannel:
            return []
        }
        return [
            Problem(
                code: "held_by_fcm",
                field: field,
                detail:
                    "is one message, with no outcome per device; send one at a time, because all of a project share some 10,000 deliveries a second",
            )
        ]
    }

    /// Source: https://firebase.google.com/docs/cloud-messaging/scale-fcm
    private static func scheduleAdvice(_ command: SendCommand, _ recipients: UInt64, now: UnixMilliseconds) -> [Problem]
    {
        // The size of FCM's own audiences is unknown.
        let isLarge = recipients >= Self.busyRecipientsMin || command.target.holder == .fcm
        guard command.notBefore != nil || isLarge else { return [] }
        let quarter: Int64 = 15 * 60
        let second = max(command.notBefore ?? now, now).seconds % quarter
        guard min(second, quarter - second) <= Self.busySeconds else { return [] }
        let what = command.notBefore == nil ? "left out, it begins" : "is"
        return [
            Problem(
                code: "busy_minutes",
                field: "not_before_ms",
                detail:
                    "\(what) within two minutes of a quarter of an hour: FCM asks to avoid those minutes, because everybody sends then",
            )
        ]
    }
}

extension RetryRules {
    /// The retry rules for FCM: never before ten seconds, with jitter, no longer than an hour after a few attempts
    /// (https://firebase.google.com/docs/cloud-messaging/scale-fcm).
    package static let fcm = RetryRules(
        unavailable: Self.unavailable,
        // Quotas are retried exponentially from a minute on.
        rateLimited: RetryPolicy(
            baseMilliseconds: 60_000,
            floorMilliseconds: 10_000,
            capMilliseconds: 900_000,
            attemptsMax: 16,
        ),
        connection: Self.unavailable,
        budgetMilliseconds: 3_600_000,
        // A 429 without a `retry-after` asks for a minute.
        quotaWaitMilliseconds: 60_000,
    )

    private static let unavailable = RetryPolicy(
        baseMilliseconds: 20_000,
        floorMilliseconds: 10_000,
        capMilliseconds: 900_000,
        attemptsMax: 16,
    )
}

extension RetryPolicy {
    /// The retry policy for changes of FCM's topics, of which a project may make 3,000 a second: exponential from
    /// Google's shortest wait on (https://firebase.google.com/docs/cloud-messaging/topic-messaging).
    package static let fcmTopics = RetryPolicy(
        baseMilliseconds: 20_000,
        floorMilliseconds: 10_000,
        capMilliseconds: 120_000,
        attemptsMax: 6,
    )
}
