internal import ApusCore
internal import ApusTLS
internal import FoundationEssentials

/// Where the files are that a dispatcher needs to reach a simulator.
public struct SimulatorCredentials: Hashable, Sendable {
    /// The files of one app.
    public struct App: Hashable, Sendable {
        /// The app.
        public let app: SimulatedApp
        /// Its APNs key, `.p8`; nil: not at Apple's.
        public let keyFile: String?
        /// A client certificate for APNs with its key, PEM, that serves the app's alerts, calls and complications; nil: not at Apple's.
        public let certificateFile: String?
        /// Its service account, JSON; nil: not at Google's.
        public let serviceAccountFile: String?
    }

    /// The folder.
    public let folder: String
    /// The certificate to trust, PEM.
    public let authorityFile: String
    /// Ports, hosts and apps, JSON.
    public let portsFile: String
    /// Each app's files, in order.
    public var apps: [App]

    /// Takes `ports.json` out of a folder, if it is there: who waits for it waits for the next simulator.
    public static func withdraw(from folder: String) {
        try? FileManager.default.removeItem(atPath: CredentialsFolder(folder: folder).path("ports.json"))
    }
}

/// Writes the files.
struct CredentialsFolder {
    let folder: String

    /// The folder is made if need be; files with keys are readable by their owner only. `ports.json` comes last, and all at once: when it
    /// is there, so is everything else.
    func write(
        _ keys: SimulatorKeys,
        addresses: SimulatorAddresses,
        now: UnixMilliseconds,
    ) throws(SimulatorError) -> SimulatorCredentials {
        do {
            let attributes: [FileAttributeKey: Any] = [.posixPermissions: 0o700]
            try FileManager.default.createDirectory(
                atPath: self.folder,
                withIntermediateDirectories: true,
                attributes: attributes,
            )
        } catch {
            throw SimulatorError(.folder, "\(self.folder) cannot be made: \(error)")
        }
        let authority = try self.file("ca.pem", Array(keys.authority.certificatePEM.utf8), isSecret: false)
        var apps: [SimulatorCredentials.App] = []
        for app in keys.apps {
            var keyFile: String?
            if app.bundleID != nil, let key = keys.appleKeys[app.keyID] {
                keyFile = try self.file("AuthKey_\(app.keyID).p8", Array(key.pem.utf8), isSecret: true)
            }
            var certificateFile: String?
            if let bundleID = app.bundleID {
                let identity = try keys.clientCertificate(
                    topics: [bundleID, "\(bundleID).voip", "\(bundleID).complication"],
                    environments: Set(ProviderEnvironment.allCases),
                    validity: CertificateValidity(from: now),
                )
                let pem = identity.certificateChainPEM + identity.privateKeyPEM
                certificateFile = try self.file("\(app.name)-certificate.pem", Array(pem.utf8), isSecret: true)
            }
            var accountFile: String?
            if let project = app.projectID {
                let json = keys.serviceAccount(projectID: project, tokenURI: addresses.tokenURI ?? "")
                accountFile = try self.file("\(app.name)-service-account.json", json, isSecret: true)
            }
            apps.append(
                SimulatorCredentials.App(
                    app: app,
                    keyFile: keyFile,
                    certificateFile: certificateFile,
                    serviceAccountFile: accountFile,
                )
            )
        }
        let ports = self.path("ports.json")
        do {
            let bytes = Self.ports(addresses, apps: apps, authority: authority)
            try Data(bytes).write(to: URL(filePath: ports), options: .atomic)
        } catch {
            throw SimulatorError(.folder, "\(ports) cannot be written: \(error)")
        }
        return SimulatorCredentials(folder: self.folder, authorityFile: authority, portsFile: ports, apps: apps)
    }

    fileprivate func path(_ name: String) -> String { self.folder + (self.folder.hasSuffix("/") ? "" : "/") + name }

    private func file(_ name: String, _ contents: [UInt8], isSecret: Bool) throws(SimulatorError) -> String {
        let path = self.path(name)
        let isWritten = FileManager.default.createFile(
            atPath: path,
            contents: Data(contents),
            attributes: [.posixPermissions: isSecret ? 0o600 : 0o644],
        )
        guard isWritten else { throw SimulatorError(.folder, "\(path) cannot be written") }
        return path
    }

    private static func ports(
        _ addresses: SimulatorAddresses,
        apps: [SimulatorCredentials.App],
        authority: String,
    ) -> [UInt8] {
        var object = addresses.json
        object["ca_file"] = .string(authority)
        object["apps"] = .array(
            apps.map { files in
                var app: JSONObject = ["name": .string(files.app.name)]
                if let keyFile = files.keyFile {
                    app["bundle_id"] = .string(files.app.bundleID ?? "")
                    app["team_id"] = .string(files.app.teamID)
                    app["key_id"] = .string(files.app.keyID)
                    app["key_file"] = .string(keyFile)
                }
                if let certificateFile = files.certificateFile { app["certificate_file"] = .string(certificateFile) }
                if let accountFile = files.serviceAccountFile {
                    app["project_id"] = .string(files.app.projectID ?? "")
                    app["service_account_file"] = .string(accountFile)
                }
                return .object(app)
            }
        )
        return JSONValue.object(object).bytes
    }
}
