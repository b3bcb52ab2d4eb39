package import ApusCore
package import ApusTLS

/// The keys and accounts of a provider's apps, which are given to their clients.
package protocol ProviderKeys: Sendable {
    /// Generates the keys that an app needs and does not have yet.
    mutating func register(_ app: SimulatedApp) throws(TLSError)

    /// Returns the files that the app's clients need.
    func files(
        of app: SimulatedApp,
        _ keys: SimulatorKeys,
        _ addresses: SimulatorAddresses,
        now: UnixMilliseconds,
    ) throws(SimulatorError) -> [CredentialFile]
}

/// Holds the certificate authority of a simulator, its apps, and each provider's keys.
package struct SimulatorKeys: Sendable {
    let authority: CertificateAuthority
    let identity: TLSIdentity
    private(set) var apps: [SimulatedApp] = []
    /// The names that its certificates are valid for.
    private let names: [String]
    private var stores: [any ProviderKeys] = SimulatedProviders.all.compactMap { $0.makeKeys() }

    /// The lifetime of the authority, in days.
    private static let days: Int64 = 365

    /// Creates an authority.
    ///
    /// - Parameter names: the host names of the simulator, besides localhost.
    init(names: [String] = [], now: UnixMilliseconds) throws(SimulatorError) {
        self.names = ["localhost"] + names + SimulatedProviders.all.flatMap { $0.traits.serverNames }
        do throws(TLSError) {
            let validity = CertificateValidity(days: Self.days, from: now)
            self.authority = try CertificateAuthority(name: "Apus Simulator", validity: validity)
            self.identity = try self.authority.issue(Self.profile(names: self.names, now: now))
        } catch {
            throw Self.failed(error)
        }
    }

    private static func profile(names: [String], now: UnixMilliseconds) -> CertificateProfile {
        CertificateProfile(
            .server,
            commonName: "localhost",
            dnsNames: names,
            ipAddresses: ["127.0.0.1", "::1"],
            validity: CertificateValidity(days: Self.days, from: now),
        )
    }

    private static func failed(_ error: TLSError) -> SimulatorError {
        SimulatorError(.keys, "cannot create a key or certificate: \(error)")
    }

    /// Issues a certificate.
    func issue(_ profile: CertificateProfile) throws(SimulatorError) -> TLSIdentity {
        do throws(TLSError) { return try self.authority.issue(profile) } catch { throw Self.failed(error) }
    }

    /// Returns the certificate of a listener.
    func identity(_ form: CertificateForm, now: UnixMilliseconds) throws(SimulatorError) -> TLSIdentity {
        let day: Int64 = 86_400_000
        var profile = Self.profile(names: self.names, now: now)
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
        return try self.issue(profile)
    }

    /// Adds apps, and keys for those that have none; an app with a known name is replaced.
    mutating func register(_ added: [SimulatedApp]) throws(SimulatorError) {
        for app in added {
            self.apps.removeAll { $0.name == app.name }
            self.apps.append(app)
            do throws(TLSError) {
                for index in self.stores.indices { try self.stores[index].register(app) }
            } catch {
                throw Self.failed(error)
            }
        }
    }

    /// Returns the keys of a provider.
    func store<Store: ProviderKeys>(_ type: Store.Type) -> Store {
        guard let match = self.stores.lazy.compactMap({ $0 as? Store }).first else {
            preconditionFailure("no provider has \(type)")
        }
        return match
    }

    /// Returns the files that an app's clients need, for all providers.
    func files(
        of app: SimulatedApp,
        _ addresses: SimulatorAddresses,
        now: UnixMilliseconds,
    ) throws(SimulatorError) -> [CredentialFile] {
        var files: [CredentialFile] = []
        for store in self.stores { files += try store.files(of: app, self, addresses, now: now) }
        return files
    }
}
