internal import ApusCore
internal import ApusTLS

/// The VAPID keys of the apps, one each.
struct WebPushKeys: ProviderKeys {
    private var keys: [String: PrivateKey] = [:]

    mutating func register(_ app: SimulatedApp) throws(TLSError) {
        if self.keys[app.name] == nil { self.keys[app.name] = try PrivateKey.generate(.p256) }
    }

    /// The public points of all keys.
    var points: Set<[UInt8]> { Set(self.keys.values.compactMap(\.publicKey.uncompressedPoint)) }

    /// Returns an app's key in PEM; nil for an unknown app.
    func pem(_ app: String) -> String? { self.keys[app]?.pem }

    func files(
        of app: SimulatedApp,
        _ keys: SimulatorKeys,
        _ addresses: SimulatorAddresses,
        now: UnixMilliseconds,
    ) throws(SimulatorError) -> [CredentialFile] {
        guard let key = self.keys[app.name], let point = key.publicKey.uncompressedPoint else { return [] }
        return [
            CredentialFile(
                "\(app.name)-vapid.pem",
                Array(key.pem.utf8),
                member: "vapid_key_file",
                details: ["application_server_key": .string(Base64URL.encode(point))],
            )
        ]
    }
}

extension SimulatorCredentials.App {
    /// The VAPID key, PEM.
    public var vapidKeyFile: String? { self.files["vapid_key_file"] }
}

extension Simulator {
    /// Returns an app's VAPID key in PEM; nil if the app is unknown.
    public func vapidKeyPEM(app name: String) -> String? { self.withKeys { $0.store(WebPushKeys.self).pem(name) } }

    /// Returns the public half of an app's VAPID key in base64url, as a browser is given it; nil if the app is unknown.
    public func applicationServerKey(app name: String) -> String? {
        guard let pem = self.vapidKeyPEM(app: name) else { return nil }
        return (try? PrivateKey(pem: pem))?.publicKey.uncompressedPoint.map { Base64URL.encode($0) }
    }
}
