package import ApusCore
internal import ApusInstallation
internal import ApusTLS

/// Identifies the caller of a request for an app. It is pure: keys and the time are arguments.
///
/// A backend shows one of the app's keys, a device a token of the app's identity provider; both as `Authorization: Bearer` (RFC 6750 §2.1).
/// Keys stand in the configuration, or were created by `apus key`. Every fault before a proof looks the same from outside, and so does an
/// app that does not exist.
package struct Authenticator: Sendable {
    private let apps: [AppID: AppCredentials]
    /// The stored keys, beside those of the configuration; none for an app whose keys were never read.
    private var storedKeys: [AppID: [AppCredentials.Key]] = [:]

    /// Creates an authenticator for these apps.
    package init(_ apps: [AppID: AppCredentials]) { self.apps = apps }

    /// Returns an authenticator with those stored keys for each app instead of the earlier ones.
    package func with(storedKeys keys: [AppID: [AppCredentials.Key]]) -> Authenticator {
        var copy = self
        copy.storedKeys = keys
        return copy
    }

    /// Sets the stored keys of one app instead of the earlier ones.
    mutating func setStoredKeys(_ keys: [AppCredentials.Key], of app: AppID) { self.storedKeys[app] = keys }

    /// Returns an authenticator with the stored keys of another.
    func withStoredKeys(of other: Authenticator) -> Authenticator {
        self.with(storedKeys: other.storedKeys.filter { self.knows($0.key) })
    }

    /// The apps of the configuration.
    package var appIDs: [AppID] { self.apps.keys.sorted() }

    /// Returns true when the app is in the configuration.
    package func knows(_ app: AppID) -> Bool { self.apps[app] != nil }

    /// Identifies the caller.
    ///
    /// - Parameters:
    ///   - authorization: the header's value; nil when there is none.
    ///   - app: the app in the path.
    ///   - access: the callers that may do what is requested.
    ///   - now: the time that tokens are checked at.
    ///   - admitsToken: decides, by a part of its digest, whether a token is worth the verification of its signature.
    package func authenticate(
        _ authorization: String?,
        app: String,
        access: Access = .devices,
        now: UnixMilliseconds,
        admitsToken: (UInt64) -> Bool = { _ in true },
    ) throws(AuthenticationFailure) -> (app: AppID, caller: Caller) {
        guard let authorization else { throw .unproven(.missing) }
        guard let credential = Self.bearerToken(authorization) else { throw .unproven(.malformed) }
        // The hash is computed in any case, so that an unknown app takes no less time.
        let hash = SHA256.hash(utf8: credential)
        guard let app = try? AppID(app), let credentials = self.apps[app] else {
            throw .unproven(self.isUnknown(credential) ? .keysUnread : .unknownApp)
        }
        var match: AppCredentials.Key?
        // All keys are compared, so that the time does not show the key's position in the list.
        for key in credentials.keys where ConstantTime.equals(key.sha256, hash) { match = key }
        for key in self.storedKeys[app] ?? [] where ConstantTime.equals(key.sha256, hash) { match = key }
        let caller: Caller
        if let match {
            caller = .backend(key: match.name, role: match.role)
        } else {
            guard let issuer = credentials.issuer, credential.utf8.contains(UInt8(ascii: ".")) else {
                throw .unproven(self.isUnknown(credential) ? .keysUnread : .key)
            }
            guard admitsToken(hash.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }) else { throw .unproven(.limited) }
            caller = .user(try Self.user(of: credential, issuer, now: now))
        }
        guard access.admits(caller) else { throw .genuine(.role, access.refusal) }
        return (app, caller)
    }

    /// Returns true when a credential that matches no known key may be one of those that were never read. The answer is the same for every
    /// app, so that it does not show which there are.
    private func isUnknown(_ credential: String) -> Bool {
        credential.hasPrefix(APIKeys.secretPrefix) && self.apps.keys.contains { self.storedKeys[$0] == nil }
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

    /// Returns the credentials after the scheme, whose case does not matter (RFC 9110 §11.1); nil for any other scheme or form.
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
