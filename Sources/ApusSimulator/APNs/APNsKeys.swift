public import ApusCore
package import ApusTLS

/// A signing key that a developer registered with Apple.
package struct APNsKey: Sendable {
    /// The key's id (`kid`), ten characters.
    package var keyID: String
    /// The team's id (`iss`), ten characters.
    package var teamID: String
    /// The public key, P-256.
    package var publicKey: PublicKey
    /// The environment of the key; nil for both, as with keys from before 2025.
    package var environment: ProviderEnvironment?
    /// The bundle ids that the key may push to; nil for all of its team.
    package var topics: Set<String>?

    /// Creates a key, valid for everything of its team unless restricted.
    package init(
        keyID: String,
        teamID: String,
        publicKey: PublicKey,
        environment: ProviderEnvironment? = nil,
        topics: Set<String>? = nil,
    ) {
        self.keyID = keyID
        self.teamID = teamID
        self.publicKey = publicKey
        self.environment = environment
        self.topics = topics
    }
}

/// The credential of a client of APNs: the key of its token, or its certificate.
enum APNsCredential: Sendable {
    /// A token that was signed by the key.
    case key(APNsKey)
    /// A client certificate.
    case certificate(AppleCertificate)

    /// The topic of a request without one: "if your certificate includes multiple topics, you must specify a value"
    /// (https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns).
    var defaultTopic: String? {
        guard case .certificate(let certificate) = self, certificate.topics.count == 1 else { return nil }
        return certificate.topics[0]
    }

    /// Returns true when the credential is for a topic: a key is limited by bundle ids, a certificate names every suffix.
    func serves(_ topic: String, of bundleID: String) -> Bool {
        switch self {
        case .key(let key): key.topics?.contains(bundleID) ?? true
        case .certificate(let certificate): certificate.topics.contains(topic)
        }
    }
}

/// The signing keys of the apps, by key id.
struct APNsKeys: ProviderKeys {
    private(set) var keys: [String: PrivateKey] = [:]

    mutating func register(_ app: SimulatedApp) throws(TLSError) {
        guard app.bundleID != nil, self.keys[app.keyID] == nil else { return }
        self.keys[app.keyID] = try PrivateKey.generate(.p256)
    }

    /// Returns the keys as Apple knows them. Of apps that share a key the first one determines its team, environment and topics.
    func registered(_ apps: [SimulatedApp]) -> [APNsKey] {
        self.keys.sorted { $0.key < $1.key }.compactMap { keyID, key in
            guard let app = apps.first(where: { $0.keyID == keyID && $0.bundleID != nil }) else { return nil }
            return APNsKey(
                keyID: keyID,
                teamID: app.teamID,
                publicKey: key.publicKey,
                environment: app.keyEnvironment,
                topics: app.keyTopics,
            )
        }
    }

    func files(
        of app: SimulatedApp,
        _ keys: SimulatorKeys,
        _ addresses: SimulatorAddresses,
        now: UnixMilliseconds,
    ) throws(SimulatorError) -> [CredentialFile] {
        guard let bundleID = app.bundleID else { return [] }
        let identity = try keys.clientCertificate(
            topics: [bundleID, "\(bundleID).voip", "\(bundleID).complication"],
            environments: Set(ProviderEnvironment.allCases),
            validity: CertificateValidity(from: now),
        )
        let certificate = CredentialFile(
            "\(app.name)-certificate.pem",
            Array((identity.certificateChainPEM + identity.privateKeyPEM).utf8),
            member: "certificate_file",
        )
        guard let key = self.keys[app.keyID] else { return [certificate] }
        return [
            CredentialFile(
                "AuthKey_\(app.keyID).p8",
                Array(key.pem.utf8),
                member: "key_file",
                details: [
                    "bundle_id": .string(bundleID), "team_id": .string(app.teamID), "key_id": .string(app.keyID),
                ],
            ), certificate,
        ]
    }
}

extension SimulatorKeys {
    /// Issues a client certificate like Apple's, for the given environments and topics, the first of which is the app's.
    func clientCertificate(
        topics: [String],
        environments: Set<ProviderEnvironment>,
        validity: CertificateValidity,
    ) throws(SimulatorError) -> TLSIdentity {
        let name = topics.first ?? ""
        var profile = CertificateProfile(
            .client,
            // No common name has more characters (RFC 5280, ub-common-name).
            commonName: String("Apple Push Services: \(name)".prefix(64)),
            userID: name,
            validity: validity,
        )
        profile.extensions = AppleCertificate.extensions(topics: topics, environments: environments)
        return try self.issue(profile)
    }
}

extension SimulatorCredentials.App {
    /// The signing key for APNs, `.p8`; nil when the app is not registered with Apple.
    public var keyFile: String? { self.files["key_file"] }
    /// A client certificate for APNs with its key, PEM, for the app's alerts, calls and complications; nil when the app
    /// is not registered with Apple.
    public var certificateFile: String? { self.files["certificate_file"] }
}

extension Simulator {
    /// Returns an app's signing key for APNs, in PEM; nil if the app is unknown or not registered with Apple.
    public func signingKeyPEM(app name: String) -> String? {
        self.withKeys { keys in
            keys.apps.first { $0.name == name }.flatMap { keys.store(APNsKeys.self).keys[$0.keyID]?.pem }
        }
    }

    /// Issues a client certificate for APNs with its key, in PEM, for the given topics, the first of which is the bundle id.
    ///
    /// - Parameters:
    ///   - environments: the environments that it is for.
    ///   - days: the days of its validity.
    public func clientCertificatePEM(
        topics: [String],
        environments: Set<ProviderEnvironment> = [.production, .sandbox],
        days: Int64 = 365,
    ) throws -> String {
        let identity = try self.clientCertificate(topics: topics, environments: environments, days: days)
        return identity.certificateChainPEM + identity.privateKeyPEM
    }

    /// Issues a certificate as ``clientCertificatePEM(topics:environments:days:)`` does, in a form other than PEM.
    package func clientCertificate(
        topics: [String],
        environments: Set<ProviderEnvironment> = [.production, .sandbox],
        days: Int64 = 365,
    ) throws -> TLSIdentity {
        let validity = CertificateValidity(days: days, from: self.state.clock.now())
        return try self.withKeys { keys throws(SimulatorError) in
            try keys.clientCertificate(topics: topics, environments: environments, validity: validity)
        }
    }
}
