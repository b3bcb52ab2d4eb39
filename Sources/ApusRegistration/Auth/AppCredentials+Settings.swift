internal import ApusCore
package import ApusService
internal import ApusTLS
internal import FoundationEssentials

extension AppCredentials {
    /// Reads the key files that the settings name.
    ///
    /// - Throws: an error that names the file and its fault, never its content.
    init(_ settings: AuthSettings, app: AppID) throws(SettingsIssue) {
        self.keys = settings.apiKeys.sorted { $0.key < $1.key }.map { name, key in
            Key(name: name, sha256: key.sha256, role: key.role)
        }
        self.issuer = try settings.jwt.map { jwt throws(SettingsIssue) in try Issuer(jwt, app: app) }
    }
}

extension AppCredentials.Issuer {
    /// The maximum length of a shared secret, in bytes.
    private static let secretBytesMax = 4_096

    fileprivate init(_ settings: JWTIssuerSettings, app: AppID) throws(SettingsIssue) {
        let algorithm: JWSAlgorithm =
            switch settings.algorithm {
            case .hs256: .hs256
            case .es256: .es256
            case .rs256: .rs256
            }
        self.init(
            algorithm: algorithm,
            keys: try Self.keys(settings.keys, algorithm, key: "apps.\(app).auth.jwt"),
            audience: settings.audience,
            name: settings.issuer,
            leewaySeconds: settings.leeway / .seconds(1),
        )
    }

    private static func keys(
        _ source: JWTIssuerSettings.KeySource,
        _ algorithm: JWSAlgorithm,
        key: String,
    ) throws(SettingsIssue) -> IssuerKeys {
        func issue(_ fault: String) -> SettingsIssue {
            SettingsIssue(key: key, place: nil, message: "\(source.file) \(fault)")
        }
        let bytes: [UInt8]
        do {
            bytes = Array(try Data(contentsOf: URL(filePath: source.file)))
        } catch {
            throw issue("cannot be read: \(SystemErrorText.reason(for: source.file, error))")
        }
        switch source {
        case .sharedSecret:
            // The line end of an editor is not part of the secret.
            var secret = bytes
            while let last = secret.last, last == 0x0a || last == 0x0d { secret.removeLast() }
            guard (JWS.sharedSecretBytesMin...Self.secretBytesMax).contains(secret.count) else {
                throw issue("must have \(JWS.sharedSecretBytesMin) to \(Self.secretBytesMax) bytes")
            }
            return IssuerKeys(.sharedSecret(secret))
        case .publicKey:
            let key: PublicKey
            do throws(TLSError) {
                key = try PublicKey(pem: String(decoding: bytes, as: UTF8.self))
            } catch {
                throw issue("is not a public key: \(error)")
            }
            guard VerificationKey.publicKey(key).algorithm == algorithm else {
                throw issue("is not a key for \(algorithm.rawValue)")
            }
            return IssuerKeys(.publicKey(key))
        case .keySet:
            do throws(KeySetError) {
                return try IssuerKeys(keySet: bytes, for: algorithm)
            } catch {
                throw issue("is not a key set: \(error)")
            }
        }
    }
}

extension Authenticator {
    /// Creates the authenticator of a configuration; reads the key files.
    init(_ apps: [AppID: AppSettings]) throws(SettingsIssue) {
        var credentials: [AppID: AppCredentials] = [:]
        for (app, settings) in apps { credentials[app] = try AppCredentials(settings.auth, app: app) }
        self.init(credentials)
    }
}

extension RegistrationSettings {
    /// Reads the keys of all apps' identity providers and the TLS files, and uses none of them.
    package static func issues(ofFilesIn settings: Settings<Self>) -> [SettingsIssue] {
        var issues: [SettingsIssue] = []
        for (app, own) in settings.common.apps.sorted(by: { $0.key < $1.key }) {
            do throws(SettingsIssue) {
                _ = try AppCredentials(own.auth, app: app)
            } catch {
                issues.append(error)
            }
        }
        return issues + (settings.own.tls?.issues(for: Self.tlsKey) ?? [])
    }
}
