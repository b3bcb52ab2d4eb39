internal import ApusCore
package import ApusTLS

/// Holds the provider tokens of one connection, as far as Apple remembers them.
///
/// Source: https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns
package struct APNsConnection: Sendable {
    /// The maximum age of an accepted token, in milliseconds: an hour.
    static let tokenAgeMax: Int64 = 3_600_000
    /// The minimum interval between two tokens, in milliseconds: twenty minutes.
    static let tokenUpdateInterval: Int64 = 1_200_000
    /// The maximum time that a token may be issued in the future, in milliseconds, because clocks differ.
    static let clockSkewMax: Int64 = 60_000

    /// A token with a valid signature.
    private struct Verified {
        let token: String
        let key: APNsKey
        let issuedAt: UnixMilliseconds
    }

    private var verified: [Verified] = []
    /// The token in use, and the time of its first use.
    private var current: (token: String, since: UnixMilliseconds)?
    /// The key of the first token.
    private var firstKey: APNsKey?
    /// True after an expired token: no later token is accepted then.
    private var hasExpiredToken = false
    /// The time until which every request is refused.
    private var blockedUntil: UnixMilliseconds?

    /// True after a token was accepted on the connection: until then Apple allows one request at a time.
    package private(set) var isAuthorized = false

    /// The certificate that the client presented when it connected; nil for none. With a certificate, tokens are ignored.
    package var certificate: AppleCertificate?

    /// Creates the state of a new connection.
    package init() {}

    /// Checks a request's credential and returns it.
    mutating func authorize(
        _ header: String?,
        keys: [APNsKey],
        environment: ProviderEnvironment,
        now: UnixMilliseconds,
    ) throws(APNsRefusal) -> APNsCredential {
        if let certificate {
            guard certificate.environments.contains(environment) else {
                throw APNsRefusal(.badCertificateEnvironment, "the certificate is for the other environment")
            }
            self.isAuthorized = true
            return .certificate(certificate)
        }
        guard let header, !header.isEmpty else {
            throw APNsRefusal(.missingProviderToken, "no authorization header")
        }
        let parts = header.split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0].lowercased() == "bearer", !parts[1].isEmpty else {
            throw APNsRefusal(.invalidProviderToken, "authorization is not 'bearer' and a token")
        }
        guard !self.hasExpiredToken else {
            throw APNsRefusal(.expiredProviderToken, "an expired token made this connection unusable: open another")
        }
        if let until = self.blockedUntil {
            guard now >= until else {
                throw APNsRefusal(.tooManyProviderTokenUpdates, "this connection changed its token too often")
            }
            self.blockedUntil = nil
        }
        let token = String(parts[1])
        let known = self.verified.first { $0.token == token }
        let found = if let known { known } else { try Self.verify(token, keys: keys) }
        try self.checkAge(of: found, now: now)
        try self.checkKey(found.key, environment: environment)
        try self.checkUpdate(to: found, now: now)
        self.isAuthorized = true
        return .key(found.key)
    }

    private static func verify(_ token: String, keys: [APNsKey]) throws(APNsRefusal) -> Verified {
        guard token.utf8.count <= SimulatorLimits.jwtBytesMax else {
            throw APNsRefusal(.invalidProviderToken, "the token is too long")
        }
        let keyID = try Self.sound { () throws(TLSError) in try JWS.unverifiedHeader(of: token).keyID }
        guard let key = keys.first(where: { $0.keyID == keyID }) else {
            throw APNsRefusal(.invalidProviderToken, keyID == nil ? "no kid" : "kid is unknown")
        }
        let contents = try Self.sound { () throws(TLSError) in
            try JWS.verify(token, algorithm: .es256, key: .publicKey(key.publicKey))
        }
        return try Self.claims(contents, token: token, key: key)
    }

    private static func sound<Value>(_ body: () throws(TLSError) -> Value) throws(APNsRefusal) -> Value {
        do throws(TLSError) {
            return try body()
        } catch {
            throw APNsRefusal(.invalidProviderToken, "\(error)")
        }
    }

    private static func claims(
        _ contents: JWSContents,
        token: String,
        key: APNsKey,
    ) throws(APNsRefusal) -> Verified {
        let claims = try? JSONValue(parsing: contents.payload, bytesMax: SimulatorLimits.jwtBytesMax)
        guard let claims, claims.object != nil else {
            throw APNsRefusal(.invalidProviderToken, "the claims are not a JSON object")
        }
        guard claims["iss"]?.string == key.teamID else {
            throw APNsRefusal(.invalidProviderToken, "iss is not the team of the key")
        }
        guard let issuedAt = claims["iat"]?.int64 else {
            throw APNsRefusal(.invalidProviderToken, "iat is not a whole number of seconds")
        }
        return Verified(token: token, key: key, issuedAt: UnixMilliseconds(seconds: issuedAt))
    }

    private mutating func checkAge(of found: Verified, now: UnixMilliseconds) throws(APNsRefusal) {
        let age = now.milliseconds(since: found.issuedAt)
        guard age >= -Self.clockSkewMax else {
            throw APNsRefusal(.invalidProviderToken, "iat is in the future")
        }
        guard age <= Self.tokenAgeMax else {
            self.hasExpiredToken = true
            throw APNsRefusal(.expiredProviderToken, "iat is more than an hour ago")
        }
    }

    /// Checks that a connection stays with one team, that one that began with a key for some topics uses no other key,
    /// and that one that began with a key for a whole team uses none for some topics.
    private mutating func checkKey(_ key: APNsKey, environment: ProviderEnvironment) throws(APNsRefusal) {
        guard key.environment ?? environment == environment else {
            throw APNsRefusal(.badEnvironmentKeyID, "the key is for the other environment")
        }
        guard let first = self.firstKey else {
            self.firstKey = key
            return
        }
        guard first.teamID == key.teamID else {
            throw APNsRefusal(.invalidProviderToken, "another team used this connection first")
        }
        guard first.keyID == key.keyID || (first.topics == nil && key.topics == nil) else {
            throw APNsRefusal(.unrelatedKeyID, "another key used this connection first")
        }
    }

    private mutating func checkUpdate(to found: Verified, now: UnixMilliseconds) throws(APNsRefusal) {
        guard self.current?.token != found.token else { return }
        if let current = self.current {
            let earliest = current.since.advanced(byMilliseconds: Self.tokenUpdateInterval)
            guard now >= earliest else {
                self.blockedUntil = earliest
                throw APNsRefusal(.tooManyProviderTokenUpdates, "a new token within 20 minutes of the last")
            }
        }
        self.current = (found.token, now)
        guard !self.verified.contains(where: { $0.token == found.token }) else { return }
        if self.verified.count == SimulatorLimits.providerTokensMax { self.verified.removeFirst() }
        self.verified.append(found)
    }
}
