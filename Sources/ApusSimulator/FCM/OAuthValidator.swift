package import ApusCore
internal import ApusTLS

/// Validates requests for access tokens like `oauth2.googleapis.com/token` (RFC 7523).
///
/// Source: https://developers.google.com/identity/protocols/oauth2/service-account
package struct OAuthValidator: Sendable {
    /// The audience of Google's own token endpoint.
    package static let googleAudience = "https://oauth2.googleapis.com/token"

    private static let grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    private static let scopes: Set<String> = [
        "https://www.googleapis.com/auth/firebase.messaging", "https://www.googleapis.com/auth/cloud-platform",
    ]
    /// The maximum lifetime of an assertion is an hour; Google allows five minutes more, and as much between clocks.
    private static let lifetimeSecondsMax: Int64 = 3_600
    private static let toleranceSeconds: Int64 = 300

    /// The accounts; a token's grant names one by its index.
    package var accounts: [ServiceAccount]
    /// The audiences that `aud` may name.
    package var audiences: Set<String>
    /// The lifetime of a token, in seconds.
    package var lifetimeSeconds: Int64
    private let tokens: AccessTokens

    /// Creates a validator that issues `tokens`.
    package init(
        accounts: [ServiceAccount],
        audiences: Set<String>,
        tokens: AccessTokens,
        lifetimeSeconds: Int64 = 3_600,
    ) {
        self.accounts = accounts
        self.audiences = audiences
        self.tokens = tokens
        self.lifetimeSeconds = lifetimeSeconds
    }

    /// The error of an assertion whose times are impossible or too far apart.
    static let unreasonableTime =
        "Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. "
        + "Check your iat and exp values in the JWT claim."

    private struct Refusal: Error {
        let error: String
        let description: String

        init(_ error: String, _ description: String) {
            self.error = error
            self.description = description
        }
    }

    /// Issues a token without any check.
    func grantUnchecked(now: UnixMilliseconds, number: UInt64) -> ProviderAnswer {
        self.grant(account: 0, now: now, number: number)
    }

    /// Answers a request. `number` makes every token different.
    package func validate(_ request: ProviderRequest, now: UnixMilliseconds, number: UInt64) -> ProviderAnswer {
        do throws(Refusal) {
            return self.grant(account: try self.account(of: request, now: now), now: now, number: number)
        } catch {
            return ProviderAnswer(
                status: error.error == "invalid_client" ? 401 : 400,
                json: ["error": .string(error.error), "error_description": .string(error.description)],
                contentType: "application/json; charset=utf-8",
            )
        }
    }

    private func grant(account: UInt32, now: UnixMilliseconds, number: UInt64) -> ProviderAnswer {
        let expiresAt = now.advanced(byMilliseconds: self.lifetimeSeconds * 1_000)
        let token = self.tokens.issue(account: account, number: number, expiresAt: expiresAt)
        var answer = ProviderAnswer(
            status: 200,
            json: [
                "access_token": .string(token), "expires_in": .integer(self.lifetimeSeconds), "token_type": "Bearer",
            ],
            contentType: "application/json; charset=utf-8",
        )
        answer.headers.append(ProviderHeader("cache-control", "no-cache, no-store, max-age=0, must-revalidate"))
        return answer
    }

    private func account(of request: ProviderRequest, now: UnixMilliseconds) throws(Refusal) -> UInt32 {
        guard request.method == "POST" else { throw Refusal("invalid_request", "Only POST is allowed.") }
        guard let type = request.first("content-type"),
            type.lowercased().hasPrefix("application/x-www-form-urlencoded")
        else { throw Refusal("invalid_request", "The content type must be application/x-www-form-urlencoded.") }
        guard let form = FormParser.parse(request.body) else {
            throw Refusal("invalid_request", "The form is malformed.")
        }
        guard let grantType = form["grant_type"] else {
            throw Refusal("invalid_request", "Required parameter is missing: grant_type")
        }
        guard grantType == Self.grantType else {
            throw Refusal("unsupported_grant_type", "Invalid grant_type: \(grantType)")
        }
        guard let assertion = form["assertion"] else {
            throw Refusal("invalid_request", "Required parameter is missing: assertion")
        }
        return try self.account(assertion: assertion, now: now)
    }

    private func account(assertion: String, now: UnixMilliseconds) throws(Refusal) -> UInt32 {
        // The claims name the key; they are trusted only after the signature was verified.
        let parts = assertion.split(separator: ".", omittingEmptySubsequences: false)
        guard assertion.utf8.count <= SimulatorLimits.jwtBytesMax, parts.count == 3,
            let payload = Base64URL.decode(parts[1]),
            let claims = try? JSONValue(parsing: payload, bytesMax: SimulatorLimits.jwtBytesMax)
        else { throw Refusal("invalid_grant", "Bad Request") }
        guard let index = self.accounts.firstIndex(where: { $0.email == claims["iss"]?.string }) else {
            throw Refusal("invalid_grant", "Invalid grant: account not found")
        }
        let account = self.accounts[index]
        let contents = try? JWS.verify(assertion, algorithm: .rs256, key: .publicKey(account.publicKey))
        guard let contents, contents.keyID ?? account.keyID == account.keyID else {
            throw Refusal("invalid_grant", "Invalid JWT Signature.")
        }
        try self.check(claims, now: now)
        return UInt32(index)
    }

    private func check(_ claims: JSONValue, now: UnixMilliseconds) throws(Refusal) {
        guard let audience = claims["aud"]?.string, self.audiences.contains(audience) else {
            throw Refusal("invalid_grant", "Invalid JWT: Failed audience check.")
        }
        guard let issuedAt = claims["iat"]?.int64, let expiresAt = claims["exp"]?.int64,
            issuedAt <= now.seconds + Self.toleranceSeconds, expiresAt > now.seconds, expiresAt > issuedAt,
            expiresAt <= issuedAt + Self.lifetimeSecondsMax + Self.toleranceSeconds
        else {
            throw Refusal("invalid_grant", Self.unreasonableTime)
        }
        let asked = (claims["scope"]?.string ?? "").split(separator: " ").map(String.init)
        guard !asked.isEmpty, !Self.scopes.isDisjoint(with: asked) else {
            throw Refusal("invalid_scope", "Invalid OAuth scope or ID token audience provided.")
        }
    }
}
