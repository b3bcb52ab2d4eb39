package import ApusCore
package import ApusProviders
internal import ApusService
internal import ApusTLS

/// Holds the contents of an Apple credential's files.
enum APNsSecret: Hashable, Sendable {
    /// A signing key.
    case key([UInt8])
    /// A certificate, and its key and password if they are in files of their own.
    case certificate([UInt8], key: [UInt8]?, password: [UInt8]?)

    /// All contents as one run of bytes.
    var bytes: [UInt8] {
        switch self {
        case .key(let bytes): bytes
        case .certificate(let bytes, let key, let password): bytes + (key ?? []) + [0] + (password ?? [])
        }
    }

    /// Parses the certificate.
    ///
    /// - Parameter topics: the topics that it serves; nil for those that it names.
    func certificate(topics: [String]?) throws(ProvidersError) -> APNsCertificate {
        guard case .certificate(let file, let key, let password) = self else {
            preconditionFailure("the secret is a key, not a certificate")
        }
        return try APNsCertificate(file: file, key: key, password: password, topics: topics)
    }
}

/// Holds the settings and file contents that an app's APNs gateways of one environment are made from.
package struct APNsCredentialSource: CredentialSource {
    private(set) var settings: APNsSettings
    let environment: ProviderEnvironment
    let secret: APNsSecret
    private let authorities: [UInt8]?

    /// Reads the files of a route's credential.
    init(_ settings: APNsSettings, _ route: Route) throws(SettingsError) {
        let key = "apps.\(route.app).apns"
        self.settings = settings
        self.environment = route.environment
        self.secret =
            switch settings.credential(for: route.environment) {
            case .key(_, _, let file): .key(try CredentialFile.read("\(key).key_file", file))
            case .certificate(let file, let keyFile, let passwordFile):
                .certificate(
                    try CredentialFile.read("\(key).certificate_file", file),
                    key: try CredentialFile.readIfNamed("\(key).certificate_key_file", keyFile),
                    password: try CredentialFile.readIfNamed("\(key).certificate_password_file", passwordFile),
                )
            }
        self.authorities = try CredentialFile.readIfNamed("\(key).ca_file", settings.caFile)
    }

    package var identity: CredentialIdentity {
        switch self.settings.credential(for: self.environment) {
        case .key(let teamID, let keyID, _): CredentialIdentity(names: [teamID, keyID], secret: self.secret.bytes)
        case .certificate: CredentialIdentity(names: ["certificate"], secret: self.secret.bytes)
        }
    }

    package var credentialName: String {
        switch self.settings.credential(for: self.environment) {
        case .key(let teamID, let keyID, _): "team \(teamID), key \(keyID)"
        case .certificate(let file, _, _):
            (try? self.secret.certificate(topics: self.settings.topics))?.name ?? "certificate \(file)"
        }
    }

    package var credentialKind: CredentialKind {
        switch self.secret {
        case .key: .jwt
        case .certificate: .certificate
        }
    }

    package var target: [String] {
        [
            self.settings.topic, self.settings.host(for: self.environment),
            "\(self.settings.port(for: self.environment))",
            self.settings.broadcastAddress(for: self.environment)?.authority ?? "",
        ]
    }

    package func keepingRate(of known: APNsCredentialSource) -> APNsCredentialSource {
        var source = self
        source.settings.ratePerSecond = known.settings.ratePerSecond
        return source
    }

    package func configuration(
        of route: Route,
        sharing shared: (any ProviderCredential)?,
        _ tools: GatewayTools,
    ) throws -> GatewayConfiguration {
        let key = "apps.\(route.app).apns"
        let proof = try CredentialFile.making {
            try self.proof(shared, tools, key)
        } elseReading: {
            _ = try CredentialFile.tls(self.settings.caFile, "\(key).ca_file")
        }
        var gateway = ProviderGatewayConfiguration.apns(
            host: self.settings.host(for: self.environment),
            port: self.settings.port(for: self.environment),
        )
        gateway.bulkConnectionsMax = self.settings.connections
        let broadcasts = self.settings.broadcastAddress(for: self.environment).map { address in
            var broadcasts = gateway
            (broadcasts.host, broadcasts.port) = (address.host, address.port)
            // One request reaches a whole audience.
            broadcasts.bulkConnectionsMax = broadcasts.bulkConnectionsMin
            return broadcasts
        }
        return GatewayConfiguration(
            gateway: gateway,
            broadcasts: broadcasts,
            credential: proof.credential,
            tls: try CredentialFile.tls(self.settings.caFile, "\(key).ca_file", proof.identity),
            source: self,
            scope: proof.scope,
        )
    }

    /// Authenticates a route to Apple.
    private struct Proof {
        let credential: any ProviderCredential
        /// The identity that connections present; nil when requests carry a token.
        var identity: TLSIdentity?
        let scope: APNsTopicScope
    }

    private func proof(_ shared: (any ProviderCredential)?, _ tools: GatewayTools, _ key: String) throws -> Proof {
        switch self.settings.credential(for: self.environment) {
        case .key(let teamID, let keyID, let file):
            let credential =
                try shared
                ?? CredentialFile.using("\(key).key_file", file) {
                    let key = try APNsProviderKey(keyID: keyID, teamID: teamID, pem: self.secret.bytes)
                    _ = try key.sign(issuedAt: tools.clock.now())
                    return APNsCredential(
                        key: key,
                        store: tools.tokens,
                        clock: tools.clock,
                        logger: tools.logger,
                        minted: { tools.minted(.apns, $0) },
                    )
                }
            return Proof(credential: credential, scope: self.settings.topics.map { .bundleIDs($0) } ?? .team)
        case .certificate(let file, _, _):
            return try CredentialFile.using("\(key).certificate_file", file) {
                let certificate = try self.secret.certificate(topics: self.settings.topics)
                try certificate.check(bundleID: self.settings.topic, environment: self.environment)
                return Proof(
                    credential: shared ?? APNsCertificateCredential(certificate),
                    identity: certificate.identity,
                    scope: certificate.scope,
                )
            }
        }
    }
}

extension APNsSettings {
    /// The scope of topics that the configuration gives; a certificate's file may hold more.
    var configuredScope: APNsTopicScope {
        guard let topics = self.topics else { return .team }
        return switch self.credential {
        case .key: .bundleIDs(topics)
        case .certificate: .topics(topics)
        }
    }
}
