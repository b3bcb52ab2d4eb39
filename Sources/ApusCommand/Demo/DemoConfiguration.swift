internal import ApusCore

/// What the simulator's `ports.json` says.
package struct SimulatorFiles: Hashable, Sendable {
    /// Where it listens.
    package var host: String
    /// Apple's port.
    package var apnsPort: Int
    /// Google's port.
    package var fcmPort: Int
    /// The control listener's port.
    package var controlPort: Int
    /// Google's token endpoint.
    package var tokenURI: String
    /// The certificate to trust.
    package var authorityFile: String
    /// The app at Apple: bundle id, team, key's name and file.
    package var apple: (bundleID: String, teamID: String, keyID: String, keyFile: String) {
        (self.bundleID, self.teamID, self.keyID, self.keyFile)
    }
    /// The app at Google: project and account file.
    package var google: (projectID: String, accountFile: String) { (self.projectID, self.accountFile) }

    private var bundleID: String
    private var teamID: String
    private var keyID: String
    private var keyFile: String
    private var projectID: String
    private var accountFile: String

    /// Reads the file; nil while it is not whole.
    package init?(json: [UInt8]) {
        guard let value = try? JSONValue(parsing: json, bytesMax: 65_536), let app = value["apps"]?.array?.first,
            let host = value["host"]?.string, let apns = value["apns_port"]?.int64, let fcm = value["fcm_port"]?.int64,
            let control = value["control_port"]?.int64, let token = value["token_uri"]?.string,
            let authority = value["ca_file"]?.string, let bundleID = app["bundle_id"]?.string,
            let teamID = app["team_id"]?.string, let keyID = app["key_id"]?.string,
            let keyFile = app["key_file"]?.string, let projectID = app["project_id"]?.string,
            let accountFile = app["service_account_file"]?.string
        else { return nil }
        self.host = host
        self.apnsPort = Int(apns)
        self.fcmPort = Int(fcm)
        self.controlPort = Int(control)
        self.tokenURI = token
        self.authorityFile = authority
        self.bundleID = bundleID
        self.teamID = teamID
        self.keyID = keyID
        self.keyFile = keyFile
        self.projectID = projectID
        self.accountFile = accountFile
    }
}

/// The configuration of the demo's three services: one file for all of them.
package struct DemoConfiguration: Hashable, Sendable {
    /// The one app.
    package static let app = "demo"
    /// The services, and the standard ports of their admin endpoints.
    package static let services: [(name: String, port: Int)] = [
        ("registration", 9_101), ("dispatcher", 9_102), ("feedback", 9_103),
    ]

    /// Redis.
    package var redisURL: String
    /// Where port files are written.
    package var folder: String
    /// The simulator.
    package var simulator: SimulatorFiles
    /// SHA-256 of the API key, in hexadecimal.
    package var keyDigest: String
    /// The admin endpoints have their standard ports; else any that are free.
    package var usesStandardPorts: Bool

    /// A configuration.
    package init(
        redisURL: String,
        folder: String,
        simulator: SimulatorFiles,
        keyDigest: String,
        usesStandardPorts: Bool,
    ) {
        self.redisURL = redisURL
        self.folder = folder
        self.simulator = simulator
        self.keyDigest = keyDigest
        self.usesStandardPorts = usesStandardPorts
    }

    /// Where a service writes its admin port.
    package func adminPortFile(_ service: String) -> String { "\(self.folder)/\(service).admin" }

    /// Where registration writes the port of its API.
    package var registrationPortFile: String { "\(self.folder)/registration.port" }

    /// The file.
    package var yaml: String {
        func quoted(_ text: String) -> String { JSONValue.string(text).text }
        var lines = [
            "redis: {url: \(quoted(self.redisURL))}",
            "log: {level: info, format: json}",
            "drain_timeout: 10s",
            "apps:",
            "  \(Self.app):",
            "    apns:",
            "      team_id: \(quoted(self.simulator.apple.teamID))",
            "      key_id: \(quoted(self.simulator.apple.keyID))",
            "      key_file: \(quoted(self.simulator.apple.keyFile))",
            "      topic: \(quoted(self.simulator.apple.bundleID))",
            "      host: \(quoted(self.simulator.host))",
            "      port: \(self.simulator.apnsPort)",
            "      ca_file: \(quoted(self.simulator.authorityFile))",
            "    fcm:",
            "      project_id: \(quoted(self.simulator.google.projectID))",
            "      service_account_file: \(quoted(self.simulator.google.accountFile))",
            "      base_url: \(quoted("https://\(self.simulator.host):\(self.simulator.fcmPort)"))",
            "      token_url: \(quoted(self.simulator.tokenURI))",
            "      ca_file: \(quoted(self.simulator.authorityFile))",
            "    auth:",
            "      api_keys:",
            "        demo: {sha256: \(quoted(self.keyDigest)), role: register}",
        ]
        for service in Self.services {
            lines.append("\(service.name):")
            if service.name == "registration" {
                lines.append("  listen: \"127.0.0.1:0\"")
                lines.append("  port_file: \(quoted(self.registrationPortFile))")
            }
            let port = self.usesStandardPorts ? service.port : 0
            lines.append("  admin:")
            lines.append("    listen: \"127.0.0.1:\(port)\"")
            lines.append("    port_file: \(quoted(self.adminPortFile(service.name)))")
        }
        return lines.joined(separator: "\n") + "\n"
    }
}
