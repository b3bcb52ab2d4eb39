internal import ApusCore
internal import ApusProviders

/// An answer of Google's token endpoint. Its errors have OAuth's form, not that of Google's APIs (RFC 6749 §5.2).
package enum OAuthAnswer: Hashable, Sendable {
    /// A token.
    case granted(accessToken: String, expiresInSeconds: Int64)
    /// The account is wrong: trying again changes nothing.
    case refused(Refusal, detail: String)
    /// Not now; an older token that is still valid goes on serving.
    case unavailable(retryAfterMilliseconds: Int64?)

    /// Why.
    package enum Refusal: Hashable, Sendable {
        /// The key is wrong or was revoked.
        case signature
        /// Our clock is wrong, or the assertion lives too long.
        case clock
        /// The account was deleted.
        case accountNotFound
        /// The audience is not the token endpoint's.
        case audience
        /// The scope is not known.
        case scope
        /// Anything else.
        case other
    }

    /// Bytes of an access token at most; it stands in a header.
    package static let accessTokenBytesMax = 4_096
    /// Seconds that a token lives when the answer does not say.
    package static let expiresInSecondsDefault: Int64 = 3_600

    /// Reads an answer.
    package init(status: Int, body: [UInt8], retryAfterMilliseconds: Int64? = nil) {
        let json = try? JSONValue(parsing: body, bytesMax: FCMAnswer.bodyBytesMax)
        switch status {
        case 200:
            guard let json, let granted = Self.granted(json) else {
                self = .unavailable(retryAfterMilliseconds: retryAfterMilliseconds)
                return
            }
            self = granted
        case 408, 429: self = .unavailable(retryAfterMilliseconds: retryAfterMilliseconds)
        case 400...499:
            // Without OAuth's word it is not the token endpoint that speaks, but something before it.
            guard let word = json?["error"]?.string, !word.isEmpty else {
                self = .unavailable(retryAfterMilliseconds: retryAfterMilliseconds)
                return
            }
            let description = json?["error_description"]?.string ?? ""
            let detail = [word, description].filter { !$0.isEmpty }.joined(separator: ": ")
            self = .refused(
                Self.refusal(word: word, description: description),
                detail: ProviderText.cleaned(detail),
            )
        default: self = .unavailable(retryAfterMilliseconds: retryAfterMilliseconds)
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

    /// Google tells these apart in prose only.
    private static func refusal(word: String, description: String) -> Refusal {
        if description.contains("Invalid JWT Signature") { return .signature }
        if description.contains("short-lived token") || description.contains("reasonable timeframe") { return .clock }
        if description.contains("account not found") { return .accountNotFound }
        if description.contains("audience check") { return .audience }
        if word == "invalid_scope" || description.contains("Invalid OAuth scope") { return .scope }
        return .other
    }
}
