package import ApusCore
internal import ApusTLS

/// Tells who asks, for one app at a time. Pure: keys and the time are given.
///
/// A backend shows one of the app's keys, a device a token of the app's identity provider; both as `Authorization: Bearer`
/// (RFC 6750 §2.1). Keys stand in the configuration, or were made by `apus key`. Every fault before a proof looks the same from outside, and so does an app that is not there.
package struct Authenticator: Sendable {
    private let apps: [AppID: AppCredentials]
    /// Keys beside those of the configuration.
    private var storedKeys: [AppID: [AppCredentials.Key]] = [:]

    /// For these apps.
    package init(_ apps: [AppID: AppCredentials]) { self.apps = apps }

    /// The same with those keys of each app instead of the stored ones that it had.
    package func with(storedKeys keys: [AppID: [AppCredentials.Key]]) -> Authenticator {
        var copy = self
        copy.storedKeys = keys
        return copy
    }

    /// The same with the stored keys of another.
    func withStoredKeys(of other: Authenticator) -> Authenticator { self.with(storedKeys: other.storedKeys) }

    /// Every app of the configuration.
    package var appIDs: [AppID] { self.apps.keys.sorted() }

    /// Whether the app is in the configuration.
    package func knows(_ app: AppID) -> Bool { self.apps[app] != nil }

    /// Who asks.
    ///
    /// - Parameters:
    ///   - authorization: the header's value; nil: there is none.
    ///   - app: as the path has it.
    ///   - access: who may do what is asked.
    ///   - now: the time, for the token's.
    package func authenticate(
        _ authorization: String?,
        app: String,
        access: Access = .devices,
        now: UnixMilliseconds,
    ) throws(AuthenticationFailure) -> (app: AppID, caller: Caller) {
        guard let authorization else { throw .unproven(.missing) }
        guard let credential = Self.bearerToken(authorization) else { throw .unproven(.malformed) }
        // Hashed in any case: an app that is not there should take no less time.
        let hash = SHA256.hash(utf8: credential)
        guard let app = try? AppID(app), let credentials = self.apps[app] else { throw .unproven(.unknownApp) }
        var match: AppCredentials.Key?
        // All of them, always: where in the list a key stands does not show.
        for key in credentials.keys where ConstantTime.equals(key.sha256, hash) { match = key }
        for key in self.storedKeys[app] ?? [] where ConstantTime.equals(key.sha256, hash) { match = key }
        let caller: Caller
        if let match {
            caller = .backend(key: match.name, role: match.role)
        } else {
            guard let issuer = credentials.issuer, credential.utf8.contains(UInt8(ascii: ".")) else {
                throw .unproven(.key)
            }
            caller = .user(try Self.user(of: credential, issuer, now: now))
        }
        guard access.admits(caller) else { throw .genuine(.role, access.refusal) }
        return (app, caller)
    }

    private static func user(
        of token: String,
        _ issuer: AppCredentials.Issuer,
        now: UnixMilliseconds,
    ) throws(AuthenticationFailure) -> UserID {
        let contents: JWSContents?
        do throws(TLSError) {
            contents = try issuer.keys.key(for: token).map { key throws(TLSError) in
                try JWS.verify(token, algorithm: issuer.algorithm, key: key)
            }
        } catch {
            switch error.code {
            case .tokenAlgorithmWrong: throw .unproven(.algorithm)
            case .tokenSignatureWrong: throw .unproven(.signature)
            default: throw .unproven(.malformed)
            }
        }
        guard let contents else { throw .unproven(.key) }
        guard let claims = TokenClaims(payload: contents.payload) else {
            throw .genuine(.malformed, "the token's claims are not as RFC 7519 has them")
        }
        return try claims.user(issuer, now: now)
    }

    /// What follows the scheme, whose case does not matter (RFC 9110 §11.1); nil for any other scheme or form.
    private static func bearerToken(_ authorization: String) -> String? {
        let scheme = "bearer "
        guard authorization.utf8.count <= scheme.utf8.count + JWS.tokenBytesMax,
            authorization.prefix(scheme.count).lowercased() == scheme
        else { return nil }
        let token = authorization.dropFirst(scheme.count)
        guard !token.isEmpty, token.utf8.allSatisfy({ (0x21...0x7e).contains($0) && $0 != 0x2c }) else { return nil }
        return String(token)
    }
}
