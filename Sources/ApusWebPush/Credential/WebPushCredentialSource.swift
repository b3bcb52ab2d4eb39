package import ApusCore
package import ApusProviders
internal import ApusService

/// Holds the settings and file contents that an app's gateways to push services are made from.
package struct WebPushCredentialSource: CredentialSource {
    private(set) var settings: WebPushSettings
    /// The contents of the keys' files, the current one first.
    private let keys: [[UInt8]]
    private let authorities: [UInt8]?

    /// Reads the files of a route's credential.
    init(_ settings: WebPushSettings, _ route: Route) throws(SettingsError) {
        let key = "apps.\(route.app).webpush"
        self.settings = settings
        var keys = [try CredentialFile.read("\(key).key_file", settings.keyFile)]
        for file in settings.olderKeyFiles { keys.append(try CredentialFile.read("\(key).older_key_files", file)) }
        self.keys = keys
        self.authorities = try CredentialFile.readIfNamed("\(key).ca_file", settings.caFile)
    }

    package var identity: CredentialIdentity {
        CredentialIdentity(names: [self.settings.subject], secret: Array(self.keys.joined()))
    }

    package var credentialName: String {
        guard let key = try? VAPIDKey(file: self.keys[0], subject: self.settings.subject) else {
            return "VAPID key \(self.settings.keyFile)"
        }
        return "VAPID key \(Base64URL.encode(key.publicPoint).prefix(12))…"
    }

    package var credentialKind: CredentialKind { .jwt }

    package var target: [String] {
        self.settings.hosts + [self.settings.connectURL ?? "", "\(self.settings.isDeclarative)"]
    }

    package func keepingRate(of known: WebPushCredentialSource) -> WebPushCredentialSource {
        var source = self
        source.settings.ratePerSecond = known.settings.ratePerSecond
        return source
    }

    /// Reads the keys, and signs with each, so that a key that cannot sign is found before it is needed.
    private func readKeys(at setting: String, now: UnixMilliseconds) throws -> [VAPIDKey] {
        let files = [self.settings.keyFile] + self.settings.olderKeyFiles
        var keys: [VAPIDKey] = []
        var issues: [SettingsIssue] = []
        for (index, (file, bytes)) in zip(files, self.keys).enumerated() {
            do {
                let key = try CredentialFile.using("\(setting).\(index == 0 ? "key_file" : "older_key_files")", file) {
                    let key = try VAPIDKey(file: bytes, subject: self.settings.subject)
                    _ = try key.sign(for: Origin(host: "push.invalid"), expiresAt: now)
                    return key
                }
                keys.append(key)
            } catch let error as SettingsError {
                issues += error.issues
            }
        }
        guard issues.isEmpty else { throw SettingsError(issues: issues) }
        if let publicKey = self.settings.publicKey, publicKey != keys[0].publicPoint {
            let point = Base64URL.encode(keys[0].publicPoint)
            throw SettingsError(key: "\(setting).public_key", "is not that of key_file, which is \(point)")
        }
        return keys
    }

    package func configuration(
        of route: Route,
        sharing shared: (any ProviderCredential)?,
        _ tools: GatewayTools,
    ) throws -> GatewayConfiguration {
        let key = "apps.\(route.app).webpush"
        let tls = try CredentialFile.making {
            try CredentialFile.tls(self.settings.caFile, "\(key).ca_file", allowsHTTP1: true)
        } elseReading: {
            _ = try self.readKeys(at: key, now: tools.clock.now())
        }
        let credential =
            try shared as? VAPIDCredential
            ?? VAPIDCredential(
                keys: try self.readKeys(at: key, now: tools.clock.now()),
                clock: tools.clock,
                minted: { tools.minted(.webpush, $0) },
            )
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
            hosts: EndpointHosts(further: self.settings.hosts),
            namedHosts: self.settings.hosts.isEmpty ? nil : EndpointHosts(only: self.settings.hosts),
            connectsTo: connectsTo,
        )
        return GatewayConfiguration(
            gateway: gateway,
            credential: credential,
            tls: tls,
            source: self,
        )
    }
}
