internal import ApusCore
internal import ApusProviders

/// The answers of Google's token endpoint. Its errors have OAuth's form, not that of Google's APIs (RFC 6749 §5.2).
package enum OAuthAnswer: Hashable, Sendable {
    /// A token.
    case granted(accessToken: String, expiresInSeconds: Int64)
    /// The account is invalid: retries change nothing.
    case refused(Refusal, detail: String)
    /// The endpoint grants no token for now, for the given reason; an older token that is still valid remains in use.
    case unavailable(retryAfterMilliseconds: Int64?, detail: String)

    /// The reasons for a refusal.
    package enum Refusal: Hashable, Sendable {
        /// The key is wrong or was revoked.
        case signature
        /// The account was deleted.
        case accountNotFound
        /// The audience is not that of the token endpoint.
        case audience
        /// The scope is unknown.
        case scope
        /// Anything else.
        case other
    }

    /// The maximum bytes of an access token, which stands in a header.
    package static let accessTokenBytesMax = 4_096
    /// The lifetime of a token, in seconds, when the answer names none.
    static let expiresInSecondsDefault: Int64 = 3_600

    /// Parses an answer.
    package init(status: Int, body: [UInt8], retryAfterMilliseconds: Int64? = nil) {
        let json = try? JSONValue(parsing: body, bytesMax: FCMAnswer.bodyBytesMax)
        let unavailable = Self.unavailable(
            retryAfterMilliseconds: retryAfterMilliseconds,
            detail: status == 200 ? "an answer without a token" : "status \(status)",
        )
        switch status {
        case 200:
            guard let json, let granted = Self.granted(json) else {
                self = unavailable
                return
            }
            self = granted
        case 408, 429: self = unavailable
        case 400...499:
            // Without OAuth's error code the answer is not from the token endpoint, but from something before it.
            guard let word = json?["error"]?.string, !word.isEmpty else {
                self = unavailable
                return
            }
            let description = json?["error_description"]?.string ?? ""
            let detail = ProviderText.cleaned([word, description].filter { !$0.isEmpty }.joined(separator: ": "))
            self =
                Self.isAboutClock(description)
                ? .unavailable(
                    retryAfterMilliseconds: retryAfterMilliseconds,
                    detail: "\(CredentialGrant.wrongClock) (\(detail))",
                )
                : .refused(Self.refusal(word: word, description: description), detail: detail)
        default: self = unavailable
        }
    }

    private static func granted(_ json: JSONValue) -> OAuthAnswer? {
        guard let token = json["access_token"]?.string, (1...Self.accessTokenBytesMax).contains(token.utf8.count),
            token.utf8.allSatisfy({ (0x21...0x7e).contains($0) })
        else { return nil }
        if let type = json["token_type"]?.string, type.lowercased() != "bearer" { return nil }
        let seconds = json["expires_in"]?.int64 ?? Self.expiresInSecondsDefault
        return seconds > 0 ? .granted(accessToken: token, expiresInSeconds: min(seconds, 86_400)) : nil
    }

    /// Returns true when the endpoint refuses the time of a request, which is this machine's: another one's may be accepted.
    private static func isAboutClock(_ description: String) -> Bool {
        description.contains("short-lived token") || description.contains("reasonable timeframe")
    }

    /// Classifies a refusal: Google tells the reasons apart in prose only.
    private static func refusal(word: String, description: String) -> Refusal {
        if description.contains("Invalid JWT Signature") { return .signature }
        if description.contains("account not found") { return .accountNotFound }
        if description.contains("audience check") { return .audience }
        if word == "invalid_scope" || description.contains("Invalid OAuth scope") { return .scope }
        return .other
    }
}
