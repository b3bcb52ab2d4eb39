package import ApusCore
package import ApusService
internal import ApusTLS
internal import FoundationEssentials

/// Describes why a key file cannot be used.
struct CredentialError: Error, CustomStringConvertible {
    let description: String
}

extension AppCredentials {
    /// Reads the key files that the settings name.
    ///
    /// - Throws: an error that names the file and its fault, never its content.
    init(_ settings: AuthSettings, app: AppID) throws {
        self.keys = settings.apiKeys.sorted { $0.key < $1.key }.map { name, key in
            Key(name: name, sha256: key.sha256, role: key.role)
        }
        self.issuer = try settings.jwt.map { try Issuer($0, app: app) }
    }
}

extension AppCredentials.Issuer {
    /// The maximum length of a shared secret, in bytes.
    private static let secretBytesMax = 4_096

    fileprivate init(_ settings: JWTIssuerSettings, app: AppID) throws {
        let algorithm: JWSAlgorithm =
            switch settings.algorithm {
            case .hs256: .hs256
            case .es256: .es256
            case .rs256: .rs256
            }
        self.init(
            algorithm: algorithm,
            keys: try Self.keys(settings.keys, algorithm, place: "apps.\(app).auth.jwt (\(settings.keys.file))"),
            audience: settings.audience,
            name: settings.issuer,
            leewaySeconds: settings.leeway / .seconds(1),
        )
    }

    private static func keys(
        _ source: JWTIssuerSettings.KeySource,
        _ algorithm: JWSAlgorithm,
        place: String,
    ) throws -> IssuerKeys {
        let bytes: [UInt8]
        do {
            bytes = Array(try Data(contentsOf: URL(filePath: source.file)))
        } catch {
            let reason = SystemErrorText.reason(for: source.file, error)
            throw CredentialError(description: "\(place) cannot be read: \(source.file): \(reason)")
        }
        switch source {
        case .sharedSecret:
            // The line end of an editor is not part of the secret.
            var secret = bytes
            while let last = secret.last, last == 0x0a || last == 0x0d { secret.removeLast() }
            guard (JWS.sharedSecretBytesMin...Self.secretBytesMax).contains(secret.count) else {
                throw CredentialError(
                    description: "\(place) must have \(JWS.sharedSecretBytesMin) to \(Self.secretBytesMax) bytes",
                )
            }
            return IssuerKeys(.sharedSecret(secret))
        case .publicKey:
            let key: PublicKey
            do throws(TLSError) {
                key = try PublicKey(pem: String(decoding: bytes, as: UTF8.self))
            } catch {
                throw CredentialError(description: "\(place) is not a public key: \(error)")
            }
            guard VerificationKey.publicKey(key).algorithm == algorithm else {
                throw CredentialError(description: "\(place) is not a key for \(algorithm.rawValue)")
            }
            return IssuerKeys(.publicKey(key))
        case .keySet:
            do throws(KeySetError) {
                return try IssuerKeys(keySet: bytes, for: algorithm)
            } catch {
                throw CredentialError(description: "\(place) is not a key set: \(error)")
            }
        }
    }
}

extension Authenticator {
    /// Creates the authenticator of a configuration; reads the key files.
    package init(_ apps: [AppID: AppSettings]) throws {
        var credentials: [AppID: AppCredentials] = [:]
        for (app, settings) in apps { credentials[app] = try AppCredentials(settings.auth, app: app) }
        self.init(credentials)
    }
}
