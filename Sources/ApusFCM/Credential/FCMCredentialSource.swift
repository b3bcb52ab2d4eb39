package import ApusCore
package import ApusProviders
internal import ApusService
internal import ApusTLS
internal import NIOCore

/// Holds the settings and file contents that an app's FCM gateways are made from.
package struct FCMCredentialSource: CredentialSource {
    private(set) var settings: FCMSettings
    let account: [UInt8]
    private let authorities: [UInt8]?

    /// Reads the files of a route's credential.
    init(_ settings: FCMSettings, _ route: Route) throws(SettingsError) {
        let key = "apps.\(route.app).fcm"
        self.settings = settings
        self.account = try CredentialFile.read("\(key).service_account_file", settings.serviceAccountFile)
        self.authorities = try CredentialFile.readIfNamed("\(key).ca_file", settings.caFile)
    }

    package var identity: CredentialIdentity {
        CredentialIdentity(names: [self.settings.tokenURL ?? ""], secret: self.account + (self.authorities ?? []))
    }

    package var credentialName: String {
        (try? ServiceAccount(json: self.account))?.clientEmail ?? self.settings.serviceAccountFile
    }

    package var credentialKind: CredentialKind { .oauth }

    package var target: [String] { [self.settings.projectID, self.settings.baseURL] }

    package func keepingRate(of known: FCMCredentialSource) -> FCMCredentialSource {
        var source = self
        source.settings.ratePerMinute = known.settings.ratePerMinute
        source.settings.hasOwnRate = known.settings.hasOwnRate
        source.settings.rampMilliseconds = known.settings.rampMilliseconds
        return source
    }

    /// Reads the account, and the address that its tokens are from.
    private func readAccount(at key: String) throws -> (account: ServiceAccount, tokenAddress: WebAddress) {
        try CredentialFile.using("\(key).service_account_file", self.settings.serviceAccountFile) {
            let account = try ServiceAccount(json: self.account)
            guard let address = WebAddress(https: self.settings.tokenURL ?? account.tokenURI) else {
                throw SettingsError(key: "\(key).token_url", "must be an address that begins with https://")
            }
            return (account, address)
        }
    }

    private func credential(at key: String, _ tls: TLSContext, _ tools: GatewayTools) throws -> FCMCredential {
        let (account, address) = try self.readAccount(at: key)
        return FCMCredential(
            account: account,
            source: AccessTokenClient(
                address: address,
                eventLoop: tools.eventLoopGroup.next(),
                tls: tls,
                logger: tools.logger,
            ),
            clock: tools.clock,
            logger: tools.logger,
            minted: { tools.minted(.fcm, $0) },
        )
    }

    package func configuration(
        of route: Route,
        sharing shared: (any ProviderCredential)?,
        _ tools: GatewayTools,
    ) throws -> GatewayConfiguration {
        let key = "apps.\(route.app).fcm"
        let tls = try CredentialFile.making {
            try CredentialFile.tls(self.settings.caFile, "\(key).ca_file")
        } elseReading: {
            _ = try self.readAccount(at: key)
        }
        let credential = try shared ?? self.credential(at: key, tls, tools)
        guard let base = WebAddress(https: self.settings.baseURL) else {
            throw SettingsError(key: "\(key).base_url", "must be an address that begins with https://")
        }
        var gateway = ProviderGatewayConfiguration.fcm(host: base.host, port: base.port)
        gateway.bulkConnectionsMax = self.settings.connections
        return GatewayConfiguration(gateway: gateway, credential: credential, tls: tls, source: self)
    }
}
