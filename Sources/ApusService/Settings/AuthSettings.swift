public import ApusCore

/// Holds the rules for who may act for an app.
public struct AuthSettings: Hashable, Sendable {
    /// The app's identity provider, which authenticates devices that register themselves.
    public var jwt: JWTIssuerSettings?
    /// The API keys of backends, by name.
    public var apiKeys: [String: APIKeySettings]

    init(_ reader: SettingsReader, at key: String) {
        self.jwt = reader.hasSection("\(key).jwt") ? JWTIssuerSettings(reader, at: "\(key).jwt") : nil
        self.apiKeys = [:]
        for name in reader.names(in: "\(key).api_keys") {
            self.apiKeys[name] = APIKeySettings(reader, at: "\(key).api_keys.\(name)")
        }
    }
}

/// Describes how an app's own identity provider signs its tokens.
public struct JWTIssuerSettings: Hashable, Sendable {
    /// The signature algorithms; the configuration fixes one, and tokens cannot choose.
    public enum Algorithm: String, CaseIterable, Hashable, Sendable {
        /// ECDSA with P-256.
        case es256
        /// RSA.
        case rs256
        /// A shared secret.
        case hs256
    }

    /// The sources of the keys that verify signatures.
    public enum KeySource: Hashable, Sendable {
        /// A public key in PEM.
        case publicKey(file: String)
        /// Public keys as a JSON Web Key Set (RFC 7517 §5); a token names one by `kid`.
        case keySet(file: String)
        /// A secret that both sides share.
        case sharedSecret(file: String)

        /// The path of the key's file.
        public var file: String {
            switch self {
            case .publicKey(let file), .keySet(let file), .sharedSecret(let file): file
            }
        }
    }

    /// The signature algorithm.
    public var algorithm: Algorithm
    /// The source of the keys that verify signatures.
    public var keys: KeySource
    /// The audience that the claim `aud` must contain.
    public var audience: String
    /// The issuer that the claim `iss` must equal; nil when the claim is not checked.
    public var issuer: String?
    /// The maximum difference between the clocks of the identity provider and this service.
    public var leeway: Duration

    init(_ reader: SettingsReader, at key: String) {
        self.algorithm = reader.requiredChoice("\(key).algorithm", standIn: .es256)
        let publicKey = reader.filePath("\(key).key_file")
        let keySet = reader.filePath("\(key).jwks_file")
        let secret = reader.filePath("\(key).secret_file")
        let files = [("key_file", publicKey), ("jwks_file", keySet), ("secret_file", secret)]
        // A file that cannot be read is a mistake of its own.
        let isTold = files.contains { name, file in file == nil && reader.isGiven("\(key).\(name)") }
        switch (self.algorithm, publicKey, keySet, secret) {
        case (.hs256, nil, nil, let file?): self.keys = .sharedSecret(file: file)
        case (.es256, let file?, nil, nil), (.rs256, let file?, nil, nil): self.keys = .publicKey(file: file)
        case (.es256, nil, let file?, nil), (.rs256, nil, let file?, nil): self.keys = .keySet(file: file)
        case (.hs256, _, _, _):
            let rule = "is required for hs256, and key_file and jwks_file must not be given"
            if !isTold { reader.issue("\(key).secret_file", rule) }
            self.keys = .sharedSecret(file: "")
        case (.es256, _, _, _), (.rs256, _, _, _):
            let rule = "or jwks_file is required for \(self.algorithm.rawValue), and secret_file must not be given"
            if !isTold { reader.issue("\(key).key_file", rule) }
            self.keys = .publicKey(file: "")
        }
        self.audience = reader.requiredString("\(key).audience")
        self.issuer = reader.string("\(key).issuer")
        self.leeway = reader.duration("\(key).leeway", default: .seconds(60), in: .zero ... .seconds(300))
    }
}

/// Holds a backend's API key as its digest, never the key itself.
public struct APIKeySettings: Hashable, Sendable {
    /// SHA-256 of the key, 32 bytes.
    public var sha256: [UInt8]
    /// The role of the key's holder.
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
