package import ApusCore
package import ApusProviders
package import ApusTLS

/// Holds a team's signing key for APNs, as downloaded from Apple's developer portal (`AuthKey_<key id>.p8`).
///
/// Source: https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns
package struct APNsProviderKey: Sendable {
    /// The key's id, ten characters.
    package let keyID: String
    /// The team's id, ten characters.
    package let teamID: String
    private let key: PrivateKey

    /// The number of characters of both ids.
    static let identifierBytes = 10

    /// Creates a provider key from a parsed key.
    package init(keyID: String, teamID: String, key: PrivateKey) throws(ProvidersError) {
        try Self.check(keyID, "key id")
        try Self.check(teamID, "team id")
        guard key.kind == .p256 else {
            throw ProvidersError(.unsuitableKey, "an APNs key must be an elliptic-curve key on P-256")
        }
        self.keyID = keyID
        self.teamID = teamID
        self.key = key
    }

    /// Parses the contents of a `.p8` file.
    package init(keyID: String, teamID: String, pem: [UInt8]) throws(ProvidersError) {
        try self.init(keyID: keyID, teamID: teamID, key: .provider(pem: pem))
    }

    private static func check(_ text: String, _ name: String) throws(ProvidersError) {
        let valid = text.utf8.allSatisfy { (0x41...0x5a).contains($0) || (0x30...0x39).contains($0) }
        guard valid, text.utf8.count == Self.identifierBytes else {
            throw ProvidersError(
                .invalidIdentifier,
                "the \(name) must be \(Self.identifierBytes) characters A-Z and 0-9"
            )
        }
    }

    /// Signs a provider token that holds `{"alg":"ES256","kid":…}` and `{"iss":…,"iat":…}`, nothing else.
    package func sign(issuedAt: UnixMilliseconds) throws(ProvidersError) -> APNsProviderToken {
        let header: JSONValue = ["alg": "ES256", "kid": .string(self.keyID)]
        let claims: JSONValue = ["iss": .string(self.teamID), "iat": .integer(issuedAt.seconds)]
        do throws(TLSError) {
            let text = try JWS.sign(header: header.bytes, payload: claims.bytes, with: .privateKey(self.key))
            return APNsProviderToken(text: text, issuedAt: UnixMilliseconds(seconds: issuedAt.seconds))
        } catch {
            throw ProvidersError(.signingFailed, "the APNs key cannot sign: \(error)")
        }
    }

    /// Returns true when this very key signed the token: another file may have held the same key id.
    package func signed(_ token: APNsProviderToken) -> Bool {
        (try? JWS.verify(token.text, algorithm: .es256, key: .publicKey(self.key.publicKey))) != nil
    }
}

/// A signed provider token.
package struct APNsProviderToken: Hashable, Sendable {
    /// The JWT. It is a secret: its holder can send for an hour.
    package let text: String
    /// The token's `iat`, in whole seconds.
    package let issuedAt: UnixMilliseconds

    /// The maximum bytes of a token that another process shares.
    package static let bytesMax = 1_024

    init(text: String, issuedAt: UnixMilliseconds) {
        self.text = text
        self.issuedAt = issuedAt
    }

    /// Parses a token that another process has signed and shares; nil unless it is of the key and team, and fit for a header.
    package init?(shared text: String, keyID: String, teamID: String) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 3, text.utf8.count <= Self.bytesMax, Base64URL.decode(parts[2])?.count == 64,
            let header = Self.json(parts[0]), let claims = Self.json(parts[1]), header["kid"]?.string == keyID,
            claims["iss"]?.string == teamID, let issuedAt = claims["iat"]?.int64, (0..<1 << 40).contains(issuedAt)
        else { return nil }
        self.init(text: text, issuedAt: UnixMilliseconds(seconds: issuedAt))
    }

    private static func json(_ part: Substring) -> JSONValue? {
        guard let bytes = Base64URL.decode(part) else { return nil }
        return try? JSONValue(parsing: bytes, bytesMax: Self.bytesMax)
    }

    /// The value of the header `authorization`.
    package var authorization: String { "bearer \(self.text)" }
}
