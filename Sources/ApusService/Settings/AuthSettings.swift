public import ApusCore

/// Who may act for an app.
public struct AuthSettings: Hashable, Sendable {
    /// The app's identity provider, for devices that register themselves.
    public var jwt: JWTIssuerSettings?
    /// Keys of backends by name.
    public var apiKeys: [String: APIKeySettings]

    init(_ reader: SettingsReader, at key: String) {
        self.jwt = reader.hasSection("\(key).jwt") ? JWTIssuerSettings(reader, at: "\(key).jwt") : nil
        self.apiKeys = [:]
        for name in reader.names(in: "\(key).api_keys") {
            self.apiKeys[name] = APIKeySettings(reader, at: "\(key).api_keys.\(name)")
        }
    }
}

/// How an app's own identity provider signs.
public struct JWTIssuerSettings: Hashable, Sendable {
    /// What the tokens are signed with; fixed here, never taken from a token.
    public enum Algorithm: String, CaseIterable, Hashable, Sendable {
        /// ECDSA with P-256.
        case es256
        /// RSA.
        case rs256
        /// A shared secret.
        case hs256
    }

    /// What signatures are verified with.
    public enum KeySource: Hashable, Sendable {
        /// A public key in PEM.
        case publicKey(file: String)
        /// Public keys as a JSON Web Key Set (RFC 7517 §5); a token names one by `kid`.
        case keySet(file: String)
        /// A secret that both sides know.
        case sharedSecret(file: String)

        /// The file's path.
        public var file: String {
            switch self {
            case .publicKey(let file), .keySet(let file), .sharedSecret(let file): file
            }
        }
    }

    /// The algorithm.
    public var algorithm: Algorithm
    /// What signatures are verified with.
    public var keys: KeySource
    /// What `aud` must contain.
    public var audience: String
    /// What `iss` must be; nil: not looked at.
    public var issuer: String?
    /// How far the clocks of the identity provider and ours may differ.
    public var leeway: Duration

    init(_ reader: SettingsReader, at key: String) {
        self.algorithm = reader.requiredChoice("\(key).algorithm", standIn: .es256)
        let publicKey = reader.filePath("\(key).key_file")
        let keySet = reader.filePath("\(key).jwks_file")
        let secret = reader.filePath("\(key).secret_file")
        switch (self.algorithm, publicKey, keySet, secret) {
        case (.hs256, nil, nil, let file?): self.keys = .sharedSecret(file: file)
        case (.es256, let file?, nil, nil), (.rs256, let file?, nil, nil): self.keys = .publicKey(file: file)
        case (.es256, nil, let file?, nil), (.rs256, nil, let file?, nil): self.keys = .keySet(file: file)
        case (.hs256, _, _, _):
            reader.issue("\(key).secret_file", "must be given for hs256, and key_file and jwks_file must not")
            self.keys = .sharedSecret(file: "")
        case (.es256, _, _, _), (.rs256, _, _, _):
            let rule = "or jwks_file must be given for \(self.algorithm.rawValue), and secret_file must not"
            reader.issue("\(key).key_file", rule)
            self.keys = .publicKey(file: "")
        }
        self.audience = reader.requiredString("\(key).audience")
        self.issuer = reader.string("\(key).issuer")
        self.leeway = reader.duration("\(key).leeway", default: .seconds(60), in: .zero ... .seconds(300))
    }
}

/// A backend's key: never the key, always its digest.
public struct APIKeySettings: Hashable, Sendable {
    /// SHA-256 of the key, 32 bytes.
    public var sha256: [UInt8]
    /// What the holder may do.
    public var role: APIKeyRole

    init(_ reader: SettingsReader, at key: String) {
        let text = reader.requiredString("\(key).sha256", Self.digest, isSecret: true)
        self.sha256 = Hexadecimal.decode(text) ?? []
        self.role = reader.requiredChoice("\(key).role", standIn: .register)
    }

    private static let digest = SettingRule("must be the SHA-256 of the key in 64 hexadecimal digits") { text in
        text.utf8.count == 64 && Hexadecimal.decode(text) != nil
    }
}
