package import ApusService
package import ApusTLS

/// What proves that somebody may act for an app.
package struct AppCredentials: Sendable {
    /// A backend's key.
    package struct Key: Sendable {
        /// Its name in the configuration.
        package var name: String
        /// SHA-256 of it.
        package var sha256: [UInt8]
        /// What its holder may do.
        package var role: APIKeySettings.Role

        /// A key.
        package init(name: String, sha256: [UInt8], role: APIKeySettings.Role) {
            self.name = name
            self.sha256 = sha256
            self.role = role
        }
    }

    /// The app's identity provider.
    package struct Issuer: Sendable {
        /// What it signs with: fixed here, so no token can choose.
        package var algorithm: JWSAlgorithm
        /// What its signatures are verified with.
        package var key: VerificationKey
        /// What `aud` must contain.
        package var audience: String
        /// What `iss` must be; nil: not looked at.
        package var name: String?

        /// An identity provider.
        package init(algorithm: JWSAlgorithm, key: VerificationKey, audience: String, name: String? = nil) {
            self.algorithm = algorithm
            self.key = key
            self.audience = audience
            self.name = name
        }
    }

    /// Backends' keys.
    package var keys: [Key]
    /// Nil: devices cannot register themselves.
    package var issuer: Issuer?

    /// Those credentials.
    package init(keys: [Key], issuer: Issuer? = nil) {
        self.keys = keys
        self.issuer = issuer
    }
}
