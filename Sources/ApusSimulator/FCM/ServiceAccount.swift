package import ApusTLS

/// A service account, as far as Google knows it.
package struct ServiceAccount: Sendable {
    /// `client_email`: `iss` of its assertions.
    package var email: String
    /// `private_key_id`: `kid` of its assertions.
    package var keyID: String
    /// RSA.
    package var publicKey: PublicKey
    /// The projects that it may send for.
    package var projectIDs: Set<String>

    /// An account.
    package init(email: String, keyID: String, publicKey: PublicKey, projectIDs: Set<String>) {
        self.email = email
        self.keyID = keyID
        self.publicKey = publicKey
        self.projectIDs = projectIDs
    }
}
