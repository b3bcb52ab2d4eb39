internal import ApusCore
internal import ApusProviders
internal import ApusService
internal import ApusTLS
internal import FoundationEssentials

/// What the gateways of a route have in common.
struct GatewayRecipe: Sendable {
    let configuration: ProviderGatewayConfiguration
    /// Where broadcasts go; nil: where the others do.
    var broadcasts: ProviderGatewayConfiguration?
    let credential: any ProviderCredential
    let tls: TLSContext
    let ingredients: GatewayIngredients
    /// Which of Apple's topics the credential serves.
    let scope: APNsTopicScope
}

/// The contents of an Apple credential's files.
enum AppleSecret: Hashable, Sendable {
    /// A signing key.
    case key([UInt8])
    /// A certificate, and its key and password where they stand apart.
    case certificate([UInt8], key: [UInt8]?, password: [UInt8]?)

    /// All of it.
    var bytes: [UInt8] {
        switch self {
        case .key(let bytes): bytes
        case .certificate(let bytes, let key, let password): bytes + (key ?? []) + [0] + (password ?? [])
        }
    }
}

/// What a recipe is made from, with the files' contents: the same ingredients make the same recipe.
enum GatewayIngredients: Hashable, Sendable {
    /// An app at Apple, in one environment.
    case apns(APNsSettings, ProviderEnvironment, AppleSecret, authorities: [UInt8]?)
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
                try Self.secret(apns.credential(for: route.environment), key),
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

    private static func secret(
        _ credential: APNsCredentialSettings,
        _ key: String,
    ) throws(SettingsError) -> AppleSecret {
        switch credential {
        case .key(_, _, let file): .key(try Self.read("\(key).key_file", file))
        case .certificate(let file, let keyFile, let passwordFile):
            .certificate(
                try Self.read("\(key).certificate_file", file),
                key: try Self.readIfNamed("\(key).certificate_key_file", keyFile),
                password: try Self.readIfNamed("\(key).certificate_password_file", passwordFile),
            )
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
                settings.broadcastAddress(for: environment)?.authority ?? "",
            ]
        case .fcm(let settings, _, _):
            [
                settings.projectID, settings.baseURL, "\(settings.ratePerMinute ?? 0)", "\(settings.hasOwnRate)",
                "\(settings.rampMilliseconds)",
            ]
        }
    }

    /// Takes over what must stay the same; the rest is as it was.
    mutating func keepFixedPart(of known: GatewayIngredients) {
        switch (self, known) {
        case (.apns(var settings, let environment, let secret, let authorities), .apns(let old, _, _, _)):
            settings.topic = old.topic
            settings.host = old.host
            settings.port = old.port
            settings.sandboxPort = old.sandboxPort
            settings.broadcastHost = old.broadcastHost
            settings.sandboxBroadcastHost = old.sandboxBroadcastHost
            settings.broadcastPort = old.broadcastPort
            settings.ratePerSecond = old.ratePerSecond
            self = .apns(settings, environment, secret, authorities: authorities)
        case (.fcm(var settings, let account, let authorities), .fcm(let old, _, _)):
            settings.projectID = old.projectID
            settings.baseURL = old.baseURL
            settings.ratePerMinute = old.ratePerMinute
            settings.hasOwnRate = old.hasOwnRate
            settings.rampMilliseconds = old.rampMilliseconds
            self = .fcm(settings, account: account, authorities: authorities)
        case (.apns, .fcm), (.fcm, .apns): preconditionFailure("a route keeps its provider")
        }
    }

    /// Which key or account, in words.
    var credentialName: String {
        switch self {
        case .apns(let settings, let environment, let secret, _):
            switch settings.credential(for: environment) {
            case .key(let teamID, let keyID, _): "team \(teamID), key \(keyID)"
            case .certificate(let file, _, _):
                (try? secret.certificate(topics: settings.topics))?.name ?? "certificate \(file)"
            }
        case .fcm(let settings, let account, _):
            (try? ServiceAccount(json: account))?.clientEmail ?? settings.serviceAccountFile
        }
    }

    /// What expires.
    var credentialKind: CredentialKind {
        switch self {
        case .apns(_, _, .key, _): .jwt
        case .apns(_, _, .certificate, _): .certificate
        case .fcm: .oauth
        }
    }

    /// A digest of credential, address, topic and project: what a provider calls wrong of one set-up may be right in another.
    var setUp: String {
        var bytes: [UInt8] = []
        for part in self.identity.names + self.fixedPart { bytes += Array(part.utf8) + [0] }
        return Hexadecimal.encode(SHA256.hash(bytes + self.identity.secret).prefix(8))
    }

    /// Whose credential it is: routes of which it is the same share one.
    var identity: CredentialIdentity {
        switch self {
        case .apns(let settings, let environment, let secret, _):
            switch settings.credential(for: environment) {
            case .key(let teamID, let keyID, _):
                CredentialIdentity(names: [teamID, keyID], secret: secret.bytes)
            case .certificate: CredentialIdentity(names: ["certificate"], secret: secret.bytes)
            }
        case .fcm(let settings, let account, let authorities):
            CredentialIdentity(names: [settings.tokenURL ?? ""], secret: account + (authorities ?? []))
        }
    }
}

extension AppleSecret {
    /// The certificate.
    ///
    /// - Parameter topics: those that it serves; nil: those that it names.
    func certificate(topics: [String]?) throws(ProvidersError) -> APNsCertificate {
        guard case .certificate(let file, let key, let password) = self else {
            preconditionFailure("a key is no certificate")
        }
        return try APNsCertificate(file: file, key: key, password: password, topics: topics)
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
