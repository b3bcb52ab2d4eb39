package import ApusCore
internal import ApusService
internal import ApusTLS

/// Tells who asks, for one app at a time. Pure: keys and the time are given.
///
/// A backend shows one of the app's keys, a device a token of the app's identity provider; both as `Authorization: Bearer`
/// (RFC 6750 §2.1). Every fault before a proof looks the same from outside, and so does an app that is not there.
package struct Authenticator: Sendable {
    private let apps: [AppID: AppCredentials]

    /// For these apps.
    package init(_ apps: [AppID: AppCredentials]) { self.apps = apps }

    /// Whether the app is in the configuration.
    package func knows(_ app: AppID) -> Bool { self.apps[app] != nil }

    /// Who asks.
    ///
    /// - Parameters:
    ///   - authorization: the header's value; nil: there is none.
    ///   - app: as the path has it.
    ///   - now: the time, for the token's.
    package func authenticate(
        _ authorization: String?,
        app: String,
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
        if let match {
            guard match.role != .publish else {
                throw .genuine(.role, "this key is for sending, not for registering devices")
            }
            return (app, .backend(key: match.name))
        }
        guard let issuer = credentials.issuer, credential.utf8.contains(UInt8(ascii: ".")) else {
            throw .unproven(.key)
        }
        return (app, .user(try Self.user(of: credential, issuer, now: now)))
    }

    private static func user(
        of token: String,
        _ issuer: AppCredentials.Issuer,
        now: UnixMilliseconds,
    ) throws(AuthenticationFailure) -> UserID {
        let contents: JWSContents
        do throws(TLSError) {
            contents = try JWS.verify(token, algorithm: issuer.algorithm, key: issuer.key)
        } catch {
            switch error.code {
            case .tokenAlgorithmWrong: throw .unproven(.algorithm)
            case .tokenSignatureWrong: throw .unproven(.signature)
            default: throw .unproven(.malformed)
            }
        }
        guard let claims = TokenClaims(payload: contents.payload) else {
            throw .genuine(.malformed, "the token's claims are not as RFC 7519 has them")
        }
        return try claims.user(audience: issuer.audience, issuer: issuer.name, now: now)
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
