internal import ApusCommand
internal import ApusCore
package import ApusFCM
internal import ApusHTTP2
internal import ApusProviders
internal import ApusTerminal
internal import NIOCore

extension ProviderAccess {
    /// A connection to one of FCM's hosts with the app's account, reopened for the next request after it has ended.
    final class FCMClient {
        let settings: FCMSettings
        let address: WebAddress
        private let credential: FCMCredential
        private let reconnect: () async throws -> PlainClient
        private var client: PlainClient

        fileprivate init(
            _ settings: FCMSettings,
            _ address: WebAddress,
            _ credential: FCMCredential,
            _ client: PlainClient,
            reconnect: @escaping () async throws -> PlainClient,
        ) {
            self.settings = settings
            self.address = address
            self.credential = credential
            self.client = client
            self.reconnect = reconnect
        }

        /// Returns the open connection, after opening it again if it has ended; nil when that fails.
        func connection() async -> PlainClient? {
            if await !self.client.isOpen {
                self.client.close()
                guard let next = try? await self.reconnect() else { return nil }
                self.client = next
            }
            return self.client
        }

        /// Returns the value of `authorization`.
        func authorization() async throws -> HeaderValue {
            guard let header = try await ProviderAccess.header(self.credential, ProviderAccess.eventLoop) else {
                preconditionFailure("an account makes headers")
            }
            return header
        }

        fileprivate func close() { self.client.close() }
    }

    /// Runs `body` with a connection to FCM.
    ///
    /// - Parameter isInstanceID: true for the host of the Instance ID interface. A substitute for Google serves both hosts.
    func withFCM<Result>(
        isInstanceID: Bool = false,
        _ body: (FCMClient) async throws -> Result,
    ) async throws -> Result {
        guard let fcm = self.settings.fcm else { throw CommandFailure("\(self.app) has no fcm in the configuration") }
        guard let base = WebAddress(https: fcm.baseURL) else {
            throw CommandFailure("fcm.base_url is not an https address")
        }
        let tls = try Self.tls(fcm.caFile)
        let eventLoop = Self.eventLoop
        let account = try Self.read(fcm.serviceAccountFile) { try ServiceAccount(json: $0) }
        guard let tokenURL = WebAddress(https: fcm.tokenURL ?? account.tokenURI) else {
            throw CommandFailure("the token address of \(fcm.serviceAccountFile) is not an https address")
        }
        let source = AccessTokenClient(address: tokenURL, eventLoop: eventLoop, tls: tls, logger: Self.logger)
        let credential = FCMCredential(account: account, source: source, clock: self.clock, logger: Self.logger)
        let isGoogle = base.host == "fcm.googleapis.com"
        let address = isInstanceID && isGoogle ? WebAddress(host: InstanceIDTopics.host) : base
        let client = FCMClient(fcm, address, credential, try await Self.connect(address, tls, eventLoop)) {
            try await Self.connect(address, tls, eventLoop)
        }
        defer { client.close() }
        return try await body(client)
    }

    // MARK: Device groups

    /// Changes a device group, or asks for its key.
    ///
    /// - Parameters:
    ///   - change: the change; its key may be empty, and is asked for then.
    ///   - sender: the number of the project.
    /// - Returns: the notification key of the group.
    package func change(_ change: FCMGroupChange, sender: String) async throws -> String {
        try await self.withFCM { client in
            var key = change.key
            if change.verb != .create, key.isEmpty { key = try await Self.key(of: change.name, sender, client) }
            let full = FCMGroupChange(change.verb, name: change.name, key: key, tokens: change.tokens)
            let request = try DeviceGroups.request(
                full,
                sender: sender,
                authority: client.address.authority,
                authorization: try await client.authorization(),
            )
            return try await Self.answer(to: request, client)
        }
    }

    /// Returns the notification key of a device group.
    package func groupKey(of name: String, sender: String) async throws -> String {
        try await self.withFCM { try await Self.key(of: name, sender, $0) }
    }

    private static func key(of name: String, _ sender: String, _ client: FCMClient) async throws -> String {
        let request = try DeviceGroups.request(
            keyOf: name,
            sender: sender,
            authority: client.address.authority,
            authorization: try await client.authorization(),
        )
        return try await Self.answer(to: request, client)
    }

    private static func answer(to request: PlainRequest, _ client: FCMClient) async throws -> String {
        guard let answer = await client.connection()?.send(request) else {
            throw CommandFailure("\(client.address.authority) gave no answer; try again")
        }
        switch DeviceGroups.answer(status: answer.status, body: answer.body) {
        case .key(let key): return key
        case .refused(let word): throw CommandFailure("FCM refuses: \(word)")
        }
    }
}
