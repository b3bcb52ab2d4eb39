internal import ApusCore
internal import ApusTLS

/// What the simulator would know as Apple's and Google's, and what its clients need: authority, keys and accounts.
struct SimulatorKeys: Sendable {
    let authority: CertificateAuthority
    let identity: TLSIdentity
    /// What its certificates are for.
    private let names: [String]
    private(set) var apps: [SimulatedApp] = []
    /// By key id.
    private(set) var appleKeys: [String: PrivateKey] = [:]
    /// One for all accounts: an RSA key takes long to make.
    private(set) var googleKey: PrivateKey?

    /// Longest life of the authority, in days.
    private static let days: Int64 = 365

    /// - Parameter names: that clients reach it by, beside localhost.
    init(names: [String] = [], now: UnixMilliseconds) throws(SimulatorError) {
        self.names = ["localhost"] + names
        do throws(TLSError) {
            let validity = CertificateValidity(days: Self.days, from: now)
            self.authority = try CertificateAuthority(name: "Apus Simulator", validity: validity)
            self.identity = try self.authority.issue(
                CertificateProfile(
                    .server,
                    commonName: "localhost",
                    dnsNames: self.names,
                    ipAddresses: ["127.0.0.1", "::1"],
                    validity: validity,
                )
            )
        } catch {
            throw SimulatorError(.keys, "no certificate: \(error)")
        }
    }

    /// The certificate of a listener.
    func identity(_ form: CertificateForm, now: UnixMilliseconds) throws(SimulatorError) -> TLSIdentity {
        let day: Int64 = 86_400_000
        var profile = CertificateProfile(
            .server,
            commonName: "localhost",
            dnsNames: self.names,
            ipAddresses: ["127.0.0.1", "::1"],
            validity: CertificateValidity(days: Self.days, from: now),
        )
        switch form {
        case .valid: return self.identity
        case .expired:
            profile.validity = CertificateValidity(
                from: now.advanced(byMilliseconds: -30 * day),
                until: now.advanced(byMilliseconds: -day),
            )
        case .wrongName:
            profile.commonName = "wrong.example"
            profile.dnsNames = ["wrong.example"]
            profile.ipAddresses = []
        }
        do throws(TLSError) {
            return try self.authority.issue(profile)
        } catch {
            throw SimulatorError(.keys, "no certificate: \(error)")
        }
    }

    /// A client certificate as Apple hands it out: for those topics, the first of which is the app's, and environments.
    func clientCertificate(
        topics: [String],
        environments: Set<ProviderEnvironment>,
        validity: CertificateValidity,
    ) throws(SimulatorError) -> TLSIdentity {
        let name = topics.first ?? ""
        var profile = CertificateProfile(
            .client,
            // No common name has more characters (RFC 5280, ub-common-name).
            commonName: String("Apple Push Services: \(name)".prefix(64)),
            userID: name,
            validity: validity,
        )
        profile.extensions = AppleCertificate.extensions(topics: topics, environments: environments)
        do throws(TLSError) {
            return try self.authority.issue(profile)
        } catch {
            throw SimulatorError(.keys, "no certificate: \(error)")
        }
    }

    /// Adds apps, and keys for those that have none; an app of a known name is replaced.
    mutating func register(_ added: [SimulatedApp]) throws(SimulatorError) {
        for app in added {
            self.apps.removeAll { $0.name == app.name }
            self.apps.append(app)
            do throws(TLSError) {
                if app.bundleID != nil, self.appleKeys[app.keyID] == nil {
                    self.appleKeys[app.keyID] = try PrivateKey.generate(.p256)
                }
                if app.projectID != nil, self.googleKey == nil { self.googleKey = try PrivateKey.generate(.rsa2048) }
            } catch {
                throw SimulatorError(.keys, "no key: \(error)")
            }
        }
    }

    /// Apple's side of the keys. A key is what the first app that names it says: its team, environment and topics.
    var registeredKeys: [APNsKey] {
        self.appleKeys.sorted { $0.key < $1.key }.compactMap { keyID, key in
            guard let app = self.apps.first(where: { $0.keyID == keyID && $0.bundleID != nil }) else { return nil }
            return APNsKey(
                keyID: keyID,
                teamID: app.teamID,
                publicKey: key.publicKey,
                environment: app.keyEnvironment,
                topics: app.keyTopics,
            )
        }
    }

    /// Google's side of the accounts: one per project.
    var accounts: [ServiceAccount] {
        guard let key = self.googleKey else { return [] }
        return self.projectIDs.sorted().map { project in
            ServiceAccount(
                email: Self.email(project),
                keyID: Self.accountKeyID(project),
                publicKey: key.publicKey,
                projectIDs: [project],
            )
        }
    }

    var projectIDs: Set<String> { Set(self.apps.compactMap(\.projectID)) }

    var bundleIDs: Set<String> { Set(self.apps.compactMap(\.bundleID)) }

    static func email(_ projectID: String) -> String { "push@\(projectID).iam.gserviceaccount.com" }

    /// Google's are 40 hexadecimal digits.
    static func accountKeyID(_ projectID: String) -> String {
        String(Hexadecimal.encode(SHA256.hash(utf8: projectID)).prefix(40))
    }

    /// The JSON file that Google hands out for a service account.
    func serviceAccount(projectID: String, tokenURI: String) -> [UInt8] {
        JSONValue.object([
            "type": "service_account", "project_id": .string(projectID),
            "private_key_id": .string(Self.accountKeyID(projectID)),
            "private_key": .string(self.googleKey?.pem ?? ""),
            "client_email": .string(Self.email(projectID)), "client_id": "100000000000000000000",
            "auth_uri": "https://accounts.google.com/o/oauth2/auth", "token_uri": .string(tokenURI),
            "universe_domain": "googleapis.com",
        ]).bytes
    }
}
