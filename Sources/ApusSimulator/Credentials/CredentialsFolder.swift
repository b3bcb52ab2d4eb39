internal import ApusCore
internal import ApusTLS
internal import FoundationEssentials

/// Names the files that a dispatcher needs to connect to a simulator.
public struct SimulatorCredentials: Hashable, Sendable {
    /// The files of one app.
    public struct App: Hashable, Sendable {
        /// The app.
        public let app: SimulatedApp
        /// The paths of its files, by their names in `ports.json`.
        let files: [String: String]
    }

    /// The folder.
    public let folder: String
    /// The certificate to trust, PEM.
    public let authorityFile: String
    /// The ports, hosts and apps, JSON.
    public let portsFile: String
    /// The files of each app, in order.
    public var apps: [App]

    /// Removes `ports.json` from a folder, so that programs that wait for it wait for the next simulator.
    public static func withdraw(from folder: String) {
        try? FileManager.default.removeItem(atPath: CredentialsFolder(folder: folder).path("ports.json"))
    }
}

/// A file that the clients of an app need, readable only by its owner.
package struct CredentialFile: Sendable {
    let name: String
    let contents: [UInt8]
    /// The member of `ports.json` that holds its path.
    let member: String
    /// The members of `ports.json` before it.
    let details: JSONObject

    init(_ name: String, _ contents: [UInt8], member: String, details: JSONObject = [:]) {
        self.name = name
        self.contents = contents
        self.member = member
        self.details = details
    }
}

/// Writes the files that clients need into a folder.
struct CredentialsFolder {
    let folder: String

    /// Writes all files, and creates the folder if necessary. `ports.json` is written last and atomically: when it
    /// exists, so does everything else.
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
            throw SimulatorError(.folder, "\(self.folder) cannot be created: \(error)")
        }
        let authority = try self.file("ca.pem", Array(keys.authority.certificatePEM.utf8), isSecret: false)
        var apps: [SimulatorCredentials.App] = []
        var entries: [JSONValue] = []
        for app in keys.apps {
            var paths: [String: String] = [:]
            var entry: JSONObject = ["name": .string(app.name)]
            for file in try keys.files(of: app, addresses, now: now) {
                let path = try self.file(file.name, file.contents, isSecret: true)
                for member in file.details.members { entry[member.name] = member.value }
                entry[file.member] = .string(path)
                paths[file.member] = path
            }
            apps.append(SimulatorCredentials.App(app: app, files: paths))
            entries.append(.object(entry))
        }
        let ports = self.path("ports.json")
        do {
            var object = addresses.json
            object["ca_file"] = .string(authority)
            object["apps"] = .array(entries)
            try Data(JSONValue.object(object).bytes).write(to: URL(filePath: ports), options: .atomic)
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
}
