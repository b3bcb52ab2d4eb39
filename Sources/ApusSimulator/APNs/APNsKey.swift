package import ApusCore
package import ApusTLS

/// A key that a developer registered with Apple, as far as Apple knows it.
package struct APNsKey: Sendable {
    /// Ten characters: `kid`.
    package var keyID: String
    /// Ten characters: `iss`.
    package var teamID: String
    /// P-256.
    package var publicKey: PublicKey
    /// nil: both, as keys from before 2025 are.
    package var environment: ProviderEnvironment?
    /// Bundle ids that it may push to; nil: all of its team.
    package var topics: Set<String>?

    /// A key, valid for everything of its team unless said otherwise.
    package init(
        keyID: String,
        teamID: String,
        publicKey: PublicKey,
        environment: ProviderEnvironment? = nil,
        topics: Set<String>? = nil,
    ) {
        self.keyID = keyID
        self.teamID = teamID
        self.publicKey = publicKey
        self.environment = environment
        self.topics = topics
    }
}
