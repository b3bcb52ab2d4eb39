internal import ApusCore

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

    /// The algorithm.
    public var algorithm: Algorithm
    /// The public key as PEM, or the shared secret.
    public var keyFile: String
    /// What `aud` must contain.
    public var audience: String
    /// What `iss` must be; nil: not looked at.
    public var issuer: String?

    init(_ reader: SettingsReader, at key: String) {
        self.algorithm = reader.requiredChoice("\(key).algorithm", standIn: .es256)
        let publicKey = reader.filePath("\(key).key_file")
        let secret = reader.filePath("\(key).secret_file")
        switch (self.algorithm, publicKey, secret) {
        case (.hs256, nil, let file?): self.keyFile = file
        case (.es256, let file?, nil), (.rs256, let file?, nil): self.keyFile = file
        case (.hs256, _, _):
            reader.issue("\(key).secret_file", "must be given for hs256, and key_file must not")
            self.keyFile = ""
        case (.es256, _, _), (.rs256, _, _):
            reader.issue("\(key).key_file", "must be given for \(self.algorithm.rawValue), and secret_file must not")
            self.keyFile = ""
        }
        self.audience = reader.requiredString("\(key).audience")
        self.issuer = reader.string("\(key).issuer")
    }
}

/// A backend's key: never the key, always its digest.
public struct APIKeySettings: Hashable, Sendable {
    /// What the holder may do.
    public enum Role: String, CaseIterable, Hashable, Sendable {
        /// Register and change devices.
        case register
        /// Send.
        case publish
        /// All of it.
        case admin
    }

    /// SHA-256 of the key, 32 bytes.
    public var sha256: [UInt8]
    /// What the holder may do.
    public var role: Role

    init(_ reader: SettingsReader, at key: String) {
        let text = reader.requiredString("\(key).sha256", Self.digest)
        self.sha256 = Hexadecimal.decode(text) ?? []
        self.role = reader.requiredChoice("\(key).role", standIn: .register)
    }

    private static let digest = SettingRule("must be the SHA-256 of the key in 64 hexadecimal digits") { text in
        text.utf8.count == 64 && Hexadecimal.decode(text) != nil
    }
}
