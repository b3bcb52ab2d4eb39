internal import ApusCore
internal import ApusProviders
internal import ApusService
internal import ApusTLS
internal import FoundationEssentials

/// What the gateways of a route have in common.
struct GatewayRecipe: Sendable {
    let configuration: ProviderGatewayConfiguration
    let credential: any ProviderCredential
    let tls: TLSContext
    let ingredients: GatewayIngredients
}

/// What a recipe is made from, with the files' contents: the same ingredients make the same recipe.
enum GatewayIngredients: Hashable, Sendable {
    /// An app at Apple, in one environment.
    case apns(APNsSettings, ProviderEnvironment, key: [UInt8], authorities: [UInt8]?)
    /// An app at Google.
    case fcm(FCMSettings, account: [UInt8], authorities: [UInt8]?)

    /// Reads the files of a route.
    ///
    /// - Throws: `SettingsError` naming the file that cannot be read.
    init?(_ route: Route, _ settings: AppSettings) throws(SettingsError) {
        let key = "apps.\(route.app).\(route.provider.name)"
        switch route.provider {
        case .apns:
            guard let apns = settings.apns, apns.environments.contains(route.environment) else { return nil }
            self = .apns(
                apns,
                route.environment,
                key: try Self.read("\(key).key_file", apns.keyFile),
                authorities: try Self.readIfNamed("\(key).ca_file", apns.caFile),
            )
        case .fcm:
            guard let fcm = settings.fcm else { return nil }
            self = .fcm(
                fcm,
                account: try Self.read("\(key).service_account_file", fcm.serviceAccountFile),
                authorities: try Self.readIfNamed("\(key).ca_file", fcm.caFile),
            )
        case .webpush: return nil
        }
    }

    private static func read(_ key: String, _ path: String) throws(SettingsError) -> [UInt8] {
        do {
            return Array(try Data(contentsOf: URL(filePath: path)))
        } catch {
            throw SettingsError(key: key, "cannot be used: \(path): \(error)")
        }
    }

    private static func readIfNamed(_ key: String, _ path: String?) throws(SettingsError) -> [UInt8]? {
        guard let path else { return nil }
        return try Self.read(key, path)
    }

    /// What must stay the same while the process runs, because messages are written and paced by it: bundle id, project, address
    /// and rate.
    var fixedPart: [String] {
        switch self {
        case .apns(let settings, let environment, _, _):
            [
                settings.topic, settings.host(for: environment), "\(settings.port(for: environment))",
                "\(settings.ratePerSecond ?? 0)",
            ]
        case .fcm(let settings, _, _):
            [
                settings.projectID, settings.baseURL, "\(settings.ratePerMinute ?? 0)",
                "\(settings.rampMilliseconds)",
            ]
        }
    }

    /// Which key or account, in words.
    var credentialName: String {
        switch self {
        case .apns(let settings, _, _, _): "team \(settings.teamID), key \(settings.keyID)"
        case .fcm(let settings, let account, _):
            (try? ServiceAccount(json: account))?.clientEmail ?? settings.serviceAccountFile
        }
    }

    /// Whose credential it is: routes of which it is the same share one.
    var identity: CredentialIdentity {
        switch self {
        case .apns(let settings, _, let key, _):
            CredentialIdentity(names: [settings.teamID, settings.keyID], secret: key)
        case .fcm(let settings, let account, let authorities):
            CredentialIdentity(names: [settings.tokenURL ?? ""], secret: account + (authorities ?? []))
        }
    }
}

/// What makes two credentials the same.
struct CredentialIdentity: Hashable, Sendable {
    let names: [String]
    let secret: [UInt8]
}

extension SettingsError {
    /// One mistake that shows only when a file is used.
    init(key: String, _ message: String) {
        self.init(issues: [SettingsIssue(key: key, place: nil, message: message)])
    }
}
