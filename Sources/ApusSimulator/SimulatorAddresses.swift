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

    /// Who the control listener is to its clients: a name or an address.
    let controlName: String

    /// - Parameter controlHost: the address that the control listener listens on. One that stands for all of the host's is
    ///   reached by the host's name; IPv6 goes in brackets.
    package init(
        host: String,
        scheme: String,
        apnsPort: Int?,
        fcmPort: Int?,
        controlPort: Int?,
        controlHost: String,
    ) {
        self.host = host
        self.scheme = scheme
        self.apnsPort = apnsPort
        self.fcmPort = fcmPort
        self.controlPort = controlPort
        self.controlName =
            switch controlHost {
            case "0.0.0.0", "::", "": host
            case let address where address.contains(":"): "[\(address)]"
            case let address: address
            }
    }

    /// Google's token endpoint.
    public var tokenURI: String? { self.fcmPort.map { "\(self.scheme)://\(self.host):\($0)/token" } }

    /// The control listener, by the name under which whoever is meant to reach it does.
    public var controlURL: String? { self.controlPort.map { "http://\(self.controlName):\($0)" } }

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
