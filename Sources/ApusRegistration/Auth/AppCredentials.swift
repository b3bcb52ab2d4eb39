package import ApusCore
package import ApusTLS

/// What proves that somebody may act for an app.
package struct AppCredentials: Sendable {
    /// A backend's key.
    package struct Key: Sendable {
        /// Its name.
        package var name: String
        /// SHA-256 of it.
        package var sha256: [UInt8]
        /// What its holder may do.
        package var role: APIKeyRole

        /// A key.
        package init(name: String, sha256: [UInt8], role: APIKeyRole) {
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
        package var keys: IssuerKeys
        /// What `aud` must contain.
        package var audience: String
        /// What `iss` must be; nil: not looked at.
        package var name: String?
        /// How far its clock and ours may differ, in seconds.
        package var leewaySeconds: Double

        /// An identity provider.
        package init(
            algorithm: JWSAlgorithm,
            keys: IssuerKeys,
            audience: String,
            name: String? = nil,
            leewaySeconds: Double = 60,
        ) {
            self.algorithm = algorithm
            self.keys = keys
            self.audience = audience
            self.name = name
            self.leewaySeconds = leewaySeconds
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
