package import ApusCore
package import ApusTLS

/// Holds what proves that a caller may act for an app.
package struct AppCredentials: Sendable {
    /// The key of a backend.
    package struct Key: Sendable {
        /// The name of the key.
        package var name: String
        /// The SHA-256 of the key.
        package var sha256: [UInt8]
        /// The role of its holder.
        package var role: APIKeyRole

        /// Creates a key.
        package init(name: String, sha256: [UInt8], role: APIKeyRole) {
            self.name = name
            self.sha256 = sha256
            self.role = role
        }
    }

    /// The identity provider of an app.
    package struct Issuer: Sendable {
        /// The algorithm of its signatures, which is fixed here, so that no token can choose.
        package var algorithm: JWSAlgorithm
        /// The keys that verify its signatures.
        package var keys: IssuerKeys
        /// The value that `aud` must contain.
        package var audience: String
        /// The value that `iss` must have; nil when it is not checked.
        package var name: String?
        /// The tolerated difference of its clock and ours, in seconds.
        package var leewaySeconds: Double

        /// Creates an identity provider.
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

    /// The keys of backends.
    package var keys: [Key]
    /// The identity provider; nil when devices cannot register themselves.
    package var issuer: Issuer?

    /// Creates credentials.
    package init(keys: [Key], issuer: Issuer? = nil) {
        self.keys = keys
        self.issuer = issuer
    }
}
