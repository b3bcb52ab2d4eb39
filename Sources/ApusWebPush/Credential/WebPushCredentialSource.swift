package import ApusCore
package import ApusProviders
internal import ApusService

/// Holds the settings and file contents that an app's gateways to push services are made from.
package struct WebPushCredentialSource: CredentialSource {
    private var settings: WebPushSettings
    private let key: [UInt8]
    private let authorities: [UInt8]?

    /// Reads the files of a route's credential.
    init(_ settings: WebPushSettings, _ route: Route) throws(SettingsError) {
        let key = "apps.\(route.app).webpush"
        self.settings = settings
        self.key = try CredentialFile.read("\(key).key_file", settings.keyFile)
        self.authorities = try CredentialFile.readIfNamed("\(key).ca_file", settings.caFile)
    }

    package var identity: CredentialIdentity {
        CredentialIdentity(names: [self.settings.subject], secret: self.key)
    }

    package var credentialName: String {
        guard let key = try? VAPIDKey(file: self.key, subject: self.settings.subject) else {
            return "VAPID key \(self.settings.keyFile)"
        }
        return "VAPID key \(Base64URL.encode(key.publicPoint).prefix(12))…"
    }

    package var credentialKind: CredentialKind { .jwt }

    package var fixedPart: [String] {
        self.settings.hosts + [
            self.settings.connectURL ?? "", "\(self.settings.isDeclarative)", "\(self.settings.ratePerSecond ?? 0)",
        ]
    }

    package func keepingFixedPart(of known: WebPushCredentialSource) -> WebPushCredentialSource {
        var source = self
        source.settings.hosts = known.settings.hosts
        source.settings.connectURL = known.settings.connectURL
        source.settings.isDeclarative = known.settings.isDeclarative
        source.settings.ratePerSecond = known.settings.ratePerSecond
        return source
    }

    package func configuration(
        of route: Route,
        sharing shared: (any ProviderCredential)?,
        _ tools: GatewayTools,
    ) throws -> GatewayConfiguration {
        let key = "apps.\(route.app).webpush"
        let credential =
            try shared as? VAPIDCredential
            ?? CredentialFile.using("\(key).key_file", self.settings.keyFile) {
                let key = try VAPIDKey(file: self.key, subject: self.settings.subject)
                _ = try key.sign(for: Origin(host: "push.invalid"), expiresAt: tools.clock.now())
                return VAPIDCredential(key: key, clock: tools.clock, minted: { tools.minted(.webpush, $0) })
            }
        var connectsTo: WebAddress?
        if let url = self.settings.connectURL {
            guard let address = WebAddress(https: url) else {
                throw SettingsError(key: "\(key).connect_url", "must be an address that begins with https://")
            }
            connectsTo = address
        }
        var gateway = ProviderGatewayConfiguration(
            provider: .webpush,
            answers: WebPushAnswerReader(),
            host: "push services",
            bulkConnectionsMax: self.settings.connections,
        )
        // With the requests that wait, one service that never answers holds up a part of a route's window, not all of it.
        gateway.streamsMax = WebPushSettings.streamsMax
        gateway.bindsRecipients = true
        gateway.addressing = WebPushAddressing(
            credential: credential,
            hosts: WebPushHosts(further: self.settings.hosts),
            namedHosts: self.settings.hosts.isEmpty ? nil : WebPushHosts(only: self.settings.hosts),
            connectsTo: connectsTo,
        )
        return GatewayConfiguration(
            gateway: gateway,
            credential: credential,
            tls: try CredentialFile.tls(self.settings.caFile, "\(key).ca_file"),
            source: self,
        )
    }
}
