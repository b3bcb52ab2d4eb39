internal import ApusCore
package import ApusTLS

/// A service account, as Google knows it.
package struct ServiceAccount: Sendable {
    /// The account's address (`client_email`), which is `iss` of its assertions.
    package var email: String
    /// The key's id (`private_key_id`), which is `kid` of its assertions.
    package var keyID: String
    /// The public key, RSA.
    package var publicKey: PublicKey
    /// The projects that it may send for.
    package var projectIDs: Set<String>

    /// Creates an account.
    package init(email: String, keyID: String, publicKey: PublicKey, projectIDs: Set<String>) {
        self.email = email
        self.keyID = keyID
        self.publicKey = publicKey
        self.projectIDs = projectIDs
    }
}

/// The service accounts of the apps: one per project, all with one key, because generating an RSA key takes long.
struct FCMKeys: ProviderKeys {
    private var key: PrivateKey?

    mutating func register(_ app: SimulatedApp) throws(TLSError) {
        guard app.projectID != nil, self.key == nil else { return }
        self.key =
            if let pem = app.accountKeyPEM { try PrivateKey(pem: pem) } else { try PrivateKey.generate(.rsa2048) }
    }

    /// Returns the accounts as Google knows them.
    func accounts(_ apps: [SimulatedApp]) -> [ServiceAccount] {
        guard let key = self.key else { return [] }
        return Set(apps.compactMap(\.projectID)).sorted().map { project in
            ServiceAccount(
                email: Self.email(project),
                keyID: Self.keyID(project),
                publicKey: key.publicKey,
                projectIDs: [project],
            )
        }
    }

    private static func email(_ projectID: String) -> String { "push@\(projectID).iam.gserviceaccount.com" }

    /// Returns a key id of 40 hexadecimal digits, as Google's have.
    private static func keyID(_ projectID: String) -> String {
        String(Hexadecimal.encode(SHA256.hash(utf8: projectID)).prefix(40))
    }

    /// Returns the JSON file that Google provides for a service account.
    func file(projectID: String, _ addresses: SimulatorAddresses) -> [UInt8] {
        JSONValue.object([
            "type": "service_account", "project_id": .string(projectID),
            "private_key_id": .string(Self.keyID(projectID)),
            "private_key": .string(self.key?.pem ?? ""),
            "client_email": .string(Self.email(projectID)), "client_id": "100000000000000000000",
            "auth_uri": "https://accounts.google.com/o/oauth2/auth",
            "token_uri": .string(addresses.tokenURI ?? ""), "universe_domain": "googleapis.com",
        ]).bytes
    }

    func files(
        of app: SimulatedApp,
        _ keys: SimulatorKeys,
        _ addresses: SimulatorAddresses,
        now: UnixMilliseconds,
    ) throws(SimulatorError) -> [CredentialFile] {
        guard let project = app.projectID else { return [] }
        return [
            CredentialFile(
                "\(app.name)-service-account.json",
                self.file(projectID: project, addresses),
                member: "service_account_file",
                details: ["project_id": .string(project)],
            )
        ]
    }
}

extension SimulatorCredentials.App {
    /// The service account, JSON; nil when the app is not registered with Google.
    public var serviceAccountFile: String? { self.files["service_account_file"] }
}

extension Simulator {
    /// Returns an app's service account, as JSON; nil if the app is unknown or not registered with Google.
    public func serviceAccountJSON(app name: String) -> String? {
        self.withKeys { keys in
            guard let project = keys.apps.first(where: { $0.name == name })?.projectID else { return nil }
            let file = keys.store(FCMKeys.self).file(projectID: project, self.addresses)
            return String(decoding: file, as: UTF8.self)
        }
    }
}
