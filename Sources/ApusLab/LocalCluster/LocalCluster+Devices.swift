package import ApusCore
internal import ApusInstallation
package import ApusMessages
package import ApusSimulator
internal import ApusStore

/// A device of a cluster.
package struct SampleDevice: Hashable, Sendable {
    /// The device's id.
    package var id: String
    /// The provider: by default Apple for even positions, Google for odd ones.
    package var provider: Provider
    /// The token in the provider's form.
    package var token: String

    /// The token's digest, which the simulator uses.
    package var digest: TokenDigest { TokenDigest(self.token, provider: self.provider) }

    /// Creates the device of a position: the same in every cluster.
    package init(app: String, index: Int, providers: [Provider] = [.apns, .fcm]) {
        let salt = app.utf8.reduce(UInt64(index)) { $0 &* 31 &+ UInt64($1) }
        var generator = SeededGenerator(seed: salt)
        self.id = "\(app)-\(index)"
        self.provider = providers[index % providers.count]
        self.token = SampleToken.random(of: self.provider, &generator)
    }

    /// The registration of the device, with its keys if it is a browser.
    package var registration: DeviceRegistration {
        guard self.provider == .webpush else {
            return DeviceRegistration(device: self.id, provider: self.provider, token: self.token)
        }
        return DeviceRegistration(device: self.id, SimulatedBrowser(endpoint: self.token))
    }

    /// The token in the form of the simulator's ledger, where the path stands for an endpoint.
    package var ledgerToken: String { WebAddress(https: self.token)?.path ?? self.token }
}

extension DeviceRegistration {
    /// Creates the registration of a simulated browser, which does not name the key that it subscribed with.
    package init(device: String, _ browser: SimulatedBrowser) {
        self.init(device: device, provider: .webpush, token: browser.endpoint)
        self.webpushP256DH = Base64URL.decode(browser.p256dh) ?? []
        self.webpushAuth = Base64URL.decode(browser.auth) ?? []
    }
}

extension LocalCluster {
    /// The app of most sends.
    package static let app = "demo"

    /// Fills the empty store of an app with devices, each in the topics of `topics(index)`.
    ///
    /// - Parameter providers: the providers, assigned in turn.
    package func register(
        _ count: Int,
        app: String = LocalCluster.app,
        providers: [Provider] = [.apns, .fcm],
        topics: @Sendable (Int) -> [String] = { _ in [] },
        user: @Sendable (Int) -> String = { _ in "" },
        tokenKind: TokenKind = .device,
    ) async throws -> [SampleDevice] {
        let devices = (0..<count).map { SampleDevice(app: app, index: $0, providers: providers) }
        try await self.installation.store.load(try AppID(app), count: count) { index in
            var registration = devices[index].registration
            registration.topics = topics(index)
            registration.user = user(index)
            registration.tokenKind = tokenKind
            return registration
        }
        return devices
    }

    /// Counts the devices that are no longer in the store.
    package func deleted(_ devices: [SampleDevice], app: String = LocalCluster.app) async throws -> Int {
        let (store, app) = (self.installation.store, try AppID(app))
        let found = try await forEachConcurrently(devices) { try await store.get(app, try DeviceID($0.id)) != nil }
        return found.count { !$0 }
    }
}
