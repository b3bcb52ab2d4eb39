internal import ApusAPNs
internal import ApusCommand
internal import ApusCore
internal import ApusProviders
internal import ApusRedis
internal import ApusTLS
internal import ApusTerminal

extension ProviderAccess {
    /// Sends a request to Apple's channel management.
    ///
    /// - Parameter redis: the Redis in which dispatchers share the provider token, so that the team does not create one too many.
    /// - Throws: `APNsChannelRefusal` for a refusal by Apple; `CommandFailure` when the request could not be sent or answered.
    func send(
        _ channelRequest: APNsChannelRequest,
        in environment: ProviderEnvironment,
        redis: RedisClient,
    ) async throws -> APNsChannelResponse {
        guard let apns = self.settings.apns else {
            throw CommandFailure("\(self.app) has no apns in the configuration")
        }
        guard apns.environments.contains(environment) else {
            throw CommandFailure("\(self.app) does not use Apple's \(environment.name) environment")
        }
        let (credential, identity) = try self.proof(apns, environment, redis)
        var address = APNsChannelHost.address(of: environment)
        if let text = apns.channelsURL {
            guard let given = WebAddress(https: text) else {
                throw CommandFailure("apps.\(self.app).apns.channels_url is not a valid address: \(text)")
            }
            address = given
        }
        let eventLoop = Self.eventLoop
        let request = try channelRequest.request(
            bundleID: apns.topic,
            authority: address.authority,
            authorization: try await Self.header(credential, eventLoop),
        )
        let tls = try Self.tls(apns.caFile, showing: identity)
        let answer = try await Self.connected(address, tls, eventLoop) { await $0.send(request) }
        guard let answer else { throw CommandFailure("Apple at \(address.authority) did not answer in time") }
        return try channelRequest.reply(answer)
    }

    /// Returns the credential that authenticates the request: the token of a key, or a client certificate. Channel
    /// management accepts both
    /// (https://developer.apple.com/documentation/usernotifications/sending-channel-management-requests-to-apns).
    private func proof(
        _ apns: APNsSettings,
        _ environment: ProviderEnvironment,
        _ redis: RedisClient,
    ) throws -> (any ProviderCredential, TLSIdentity?) {
        switch apns.credential(for: environment) {
        case .key(let teamID, let keyID, let file):
            let key = try Self.read(file) { try APNsProviderKey(keyID: keyID, teamID: teamID, pem: $0) }
            let store = SharedTokens(client: redis)
            return (APNsCredential(key: key, store: store, clock: self.clock, logger: Self.logger), nil)
        case .certificate(let file, let keyFile, let passwordFile):
            let secrets = try [keyFile, passwordFile].map { name in try name.map { try Self.read($0) { $0 } } }
            let certificate = try Self.read(file) { bytes in
                let certificate = try APNsCertificate(
                    file: bytes,
                    key: secrets[0],
                    password: secrets[1],
                    topics: apns.topics,
                )
                try certificate.check(bundleID: apns.topic, environment: environment)
                try certificate.scope.checkChannel(of: apns.topic)
                return certificate
            }
            return (APNsCertificateCredential(certificate), certificate.identity)
        }
    }
}
