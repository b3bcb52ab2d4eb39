package import ApusCore
package import ApusMessages
package import ApusProviders
package import ApusService

/// The provider Web Push: browsers and installed web apps, by the push services of their makers (RFC 8030).
package struct WebPushProvider: PushProvider {
    /// Creates the provider.
    package init() {}

    package var traits: ProviderTraits { Provider.webpush.traits }

    package var retryRules: RetryRules { .webpush }

    package var settingDescriptions: [String: String] { WebPushSettings.descriptions }

    package func readSettings(_ reader: SettingsReader, at key: String) -> any ProviderSettings {
        WebPushSettings(reader, at: key)
    }

    package func routes(of apps: [AppID: AppSettings]) throws -> [any ProviderRoute] {
        apps.compactMap { app, settings in
            guard let webpush = settings.webpush else { return nil }
            return WebPushRoute(Route(app: app, provider: .webpush, environment: .production), webpush)
        }
    }

    package func credentialSource(
        of route: Route,
        _ settings: any ProviderSettings,
    ) throws(SettingsError) -> (any CredentialSource)? {
        guard let webpush = settings as? WebPushSettings, route.environment == .production else { return nil }
        return try WebPushCredentialSource(webpush, route)
    }

    package func check(_ notification: Notification, _ context: RenderContext) throws(Problem) {
        // The declarative form is the larger one.
        _ = try WebPushRenderer(isDeclarative: true).render(notification, context: context)
    }
}

extension RetryRules {
    /// The retry rules for push services, which document no waits but those of their answers: minutes are seen for
    /// 429 (900 s: web-push-libs/web-push-csharp#93) and 503 (120 s).
    package static let webpush = RetryRules(
        rateLimited: RetryPolicy(
            baseMilliseconds: 60_000,
            floorMilliseconds: 10_000,
            capMilliseconds: 3_600_000,
            attemptsMax: 16,
        ),
        quotaWaitMilliseconds: 60_000,
    )
}
