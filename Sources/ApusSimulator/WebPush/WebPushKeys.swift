internal import ApusCore
internal import ApusTLS

/// The VAPID keys of the apps, the current one of each first.
struct WebPushKeys: ProviderKeys {
    private var keys: [String: [PrivateKey]] = [:]

    mutating func register(_ app: SimulatedApp) throws(TLSError) {
        precondition((1...SimulatedApp.keyCountMax).contains(app.keyCount), "an app has too few or too many keys")
        while self.keys[app.name, default: []].count < app.keyCount {
            self.keys[app.name, default: []].append(try PrivateKey.generate(.p256))
        }
    }

    /// The public points of all keys.
    var points: Set<[UInt8]> { Set(self.keys.values.joined().compactMap(\.publicKey.uncompressedPoint)) }

    /// Returns an app's keys in PEM; empty for an unknown app.
    func pems(_ app: String) -> [String] { self.keys[app, default: []].map(\.pem) }

    func files(
        of app: SimulatedApp,
        _ keys: SimulatorKeys,
        _ addresses: SimulatorAddresses,
        now: UnixMilliseconds,
    ) throws(SimulatorError) -> [CredentialFile] {
        self.keys[app.name, default: []].enumerated().compactMap { index, key in
            guard let point = key.publicKey.uncompressedPoint else { return nil }
            return CredentialFile(
                "\(app.name)-vapid\(index == 0 ? "" : "-\(index + 1)").pem",
                Array(key.pem.utf8),
                member: SimulatorCredentials.App.vapidKeyMember(index),
                details: [Self.pointMember(index): .string(Base64URL.encode(point))],
            )
        }
    }

    private static func pointMember(_ index: Int) -> String {
        "application_server_key\(index == 0 ? "" : "_\(index + 1)")"
    }
}

extension SimulatorCredentials.App {
    /// The VAPID keys, PEM.
    public var vapidKeyFiles: [String] {
        (0..<SimulatedApp.keyCountMax).compactMap { self.files[Self.vapidKeyMember($0)] }
    }

    fileprivate static func vapidKeyMember(_ index: Int) -> String {
        "vapid_key_file\(index == 0 ? "" : "_\(index + 1)")"
    }
}

extension Simulator {
    /// Returns an app's VAPID keys in PEM, the first one first; empty if the app is unknown.
    public func vapidKeyPEMs(app name: String) -> [String] { self.withKeys { $0.store(WebPushKeys.self).pems(name) } }

    /// Returns the public half of an app's first VAPID key in base64url, as a browser is given it; nil if the app is unknown.
    public func applicationServerKey(app name: String) -> String? { self.applicationServerKeys(app: name).first }

    /// Returns the public halves of an app's VAPID keys in base64url, the first one first; empty if the app is unknown.
    public func applicationServerKeys(app name: String) -> [String] {
        self.vapidKeyPEMs(app: name).compactMap { pem in
            (try? PrivateKey(pem: pem))?.publicKey.uncompressedPoint.map { Base64URL.encode($0) }
        }
    }

    /// Declares the key, in base64url, with which the browser of an endpoint subscribed: every other one is refused.
    public func declareKey(_ key: String, of endpoint: String) {
        guard let point = Base64URL.decode(key) else { preconditionFailure("the key is not in base64url") }
        self.state.provider(SimulatedWebPush.self).declare(point, of: endpoint)
    }
}
