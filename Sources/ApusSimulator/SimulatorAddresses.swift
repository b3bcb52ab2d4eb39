package import ApusCore

/// Where a simulator listens.
public struct SimulatorAddresses: Hashable, Sendable {
    /// The host that its certificate names.
    public let host: String
    /// "https", or "http" without TLS.
    public let scheme: String
    /// Apple's port, if it listens there.
    public let apnsPort: Int?
    /// Google's port, if it listens there.
    public let fcmPort: Int?
    /// The control listener's port, if there is one.
    public let controlPort: Int?

    /// Google's token endpoint.
    public var tokenURI: String? { self.fcmPort.map { "\(self.scheme)://\(self.host):\($0)/token" } }

    /// The control listener.
    public var controlURL: String? { self.controlPort.map { "http://127.0.0.1:\($0)" } }

    /// As it stands in `ports.json`.
    package var json: JSONObject {
        var object: JSONObject = ["host": .string(self.host), "scheme": .string(self.scheme)]
        if let port = self.apnsPort { object["apns_port"] = .integer(port) }
        if let port = self.fcmPort { object["fcm_port"] = .integer(port) }
        if let port = self.controlPort { object["control_port"] = .integer(port) }
        if let uri = self.tokenURI { object["token_uri"] = .string(uri) }
        if let url = self.controlURL { object["control_url"] = .string(url) }
        return object
    }
}
