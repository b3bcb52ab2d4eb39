package import ApusCore
package import ApusMessages
package import ApusProviders
package import ApusService

/// The provider Apple Push Notification service.
package struct APNsProvider: PushProvider {
    /// Creates the provider.
    package init() {}

    package var traits: ProviderTraits { Provider.apns.traits }

    package var retryRules: RetryRules { .apns }

    package var settingDescriptions: [String: String] { APNsSettings.descriptions }

    package func readSettings(_ reader: SettingsReader, at key: String) -> any ProviderSettings {
        APNsSettings(reader, at: key)
    }

    package func routes(of apps: [AppID: AppSettings]) throws -> [any ProviderRoute] {
        try apps.flatMap { app, settings -> [APNsRoute] in
            guard let apns = settings.apns else { return [] }
            let renderer = try APNsRenderer(bundleID: apns.topic)
            return ProviderEnvironment.allCases.filter(apns.environments.contains).map { environment in
                APNsRoute(Route(app: app, provider: .apns, environment: environment), apns, renderer)
            }
        }
    }

    package func credentialSource(
        of route: Route,
        _ settings: any ProviderSettings,
    ) throws(SettingsError) -> (any CredentialSource)? {
        guard let apns = settings as? APNsSettings, apns.environments.contains(route.environment) else { return nil }
        return try APNsCredentialSource(apns, route)
    }

    package func check(_ target: Target) throws(Problem) {
        if case .apnsChannel(let id, _, _) = target { _ = try APNsChannelID(id) }
    }

    package func check(_ notification: Notification, _ context: RenderContext) throws(Problem) {
        _ = try APNsRenderer(bundleID: "app").render(notification, context: context)
    }

    package func advice(on apps: [AppID: AppSettings]) -> [String] {
        apps.sorted { $0.key.text < $1.key.text }.compactMap { app, settings in
            settings.apns.flatMap { Self.advice(onBundleID: $0.topic, of: app) }
        }
    }

    /// Warns about a bundle id that ends in one of Apple's topic suffixes; nil for others.
    static func advice(onBundleID id: String, of app: AppID) -> String? {
        let suffix = APNsPushType.allCases.map(\.topicSuffix).filter { !$0.isEmpty && id.hasSuffix($0) }
            .max { $0.utf8.count < $1.utf8.count }
        guard let suffix else { return nil }
        return """
            apps.\(app).apns.topic is \(id), which is used as the bundle id unchanged: if the app's bundle id is \
            \(id.dropLast(suffix.count)), leave out \(suffix), which is added where it is needed
            """
    }

    package func advice(
        on command: SendCommand,
        _ renderings: [RouteRendering],
        recipients: UInt64,
        now: UnixMilliseconds,
    ) -> [Problem] {
        var advice: [Problem] = []
        if command.notification.kind == .background { advice.append(Self.backgroundAdvice("notification.kind")) }
        // Without the push type, background pushes are dropped although they were accepted.
        // https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
        let isMisnamed = renderings.contains { rendering in
            let type = rendering.headers.first { $0.name == "apns-push-type" }?.value
            let payload = try? JSONValue(parsing: Array(rendering.payload.utf8), bytesMax: Limits.sendCommandBytesMax)
            return type == "alert" && payload?["aps"]?["content-available"] != nil && payload?["aps"]?["alert"] == nil
        }
        if isMisnamed {
            advice.append(
                Problem(
                    code: "push_type",
                    field: "notification.kind",
                    detail: "the payload only wakes the app, which needs the kind background: as an alert it is dropped",
                )
            )
        }
        return advice
    }

    /// Returns the advice on background pushes: Apple recommends two or three an hour at most, and may hold back or drop more.
    /// Source: https://developer.apple.com/documentation/usernotifications/pushing-background-updates-to-your-app
    package static func backgroundAdvice(_ field: String) -> Problem {
        Problem(
            code: "background",
            field: field,
            detail:
                "wakes an iOS app silently, with priority 5: Apple may delay or drop it, especially beyond two or three an hour for a device",
        )
    }
}

extension RetryRules {
    /// The retry rules for APNs.
    ///
    /// Apple's page allows a retry of a 500 or 503 fifteen minutes later, with back-off
    /// (https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns). Our
    /// retries begin earlier, a minute or two after the first attempt: most failures are a single server's and short,
    /// and a notification a minute late is worth more than one a quarter of an hour late. They back off to Apple's own
    /// interval, and go on for at least as long as Apple asks to wait, so that lasting failures are outlasted too:
    /// sixteen retries at least a minute apart take fifteen minutes at least. A message that is worth something for less than two minutes, such
    /// as a call, cannot wait as long: it is tried again like one whose connection was lost.
    package static let apns = RetryRules(
        unavailable: RetryPolicy(
            baseMilliseconds: 120_000,
            floorMilliseconds: 60_000,
            capMilliseconds: 900_000,
            attemptsMax: 16,
        ),
        // Too many requests to one device.
        rateLimited: RetryPolicy(
            baseMilliseconds: 30_000,
            floorMilliseconds: 5_000,
            capMilliseconds: 900_000,
            attemptsMax: 10,
        ),
        // The connection is at fault, not Apple: another one may work at once.
        connection: RetryPolicy(
            baseMilliseconds: 2_000,
            floorMilliseconds: 100,
            capMilliseconds: 300_000,
            attemptsMax: 16,
        ),
    )
}
