internal import ApusCore
package import ApusHTTP2
internal import ApusProviders

/// Exchanges tokens of Apple for registration tokens of FCM. Pure: builds requests, parses answers.
///
/// Google removes the interface on 2027-09-29, with no successor, and new projects cannot start using it.
///
/// Source: https://developers.google.com/instance-id/reference/server
package enum TokenImport {
    /// The maximum number of tokens of one request.
    package static let tokensMax = 100

    /// The result for one token.
    package enum Result: Hashable, Sendable {
        /// FCM's registration token.
        case token(String)
        /// The request should be repeated later.
        case later
        /// The token or the request was refused, for the given reason.
        case refused(String)
    }

    /// Builds a request.
    ///
    /// - Parameters:
    ///   - tokens: Apple's tokens in hexadecimal: 1 to ``tokensMax``.
    ///   - bundleID: the bundle id of the app.
    ///   - authorization: "Bearer" and an access token.
    package static func request(
        _ tokens: [String],
        bundleID: String,
        isSandbox: Bool,
        authority: String,
        authorization: HeaderValue,
    ) throws(HTTP2Error) -> PlainRequest {
        precondition((1...Self.tokensMax).contains(tokens.count))
        return try PlainRequest(
            method: "POST",
            authority: authority,
            path: "/iid/v1:batchImport",
            headers: [
                HeaderField("authorization", authorization.text), HeaderField("access_token_auth", "true"),
                HeaderField("content-type", "application/json"),
            ],
            body: JSONValue.object([
                "application": .string(bundleID), "sandbox": .bool(isSandbox),
                "apns_tokens": .array(tokens.map { .string($0) }),
            ]).bytes,
        )
    }

    /// Returns the result for each token, in the order of the request; the same for all when the request itself was refused.
    package static func results(status: Int, body: [UInt8], count: Int) -> [Result] {
        let json = try? JSONValue(parsing: body, bytesMax: InstanceIDTopics.bodyBytesMax)
        guard status == 200, let results = json?["results"]?.array, results.count == count else {
            let word = ProviderText.cleaned(json?["error"]?.string ?? "status \(status)")
            let isLater = status == 429 || status >= 500 || status == 200
            return Array(repeating: isLater ? .later : .refused(word), count: count)
        }
        return results.map { result in
            if let token = result["registration_token"]?.string, !token.isEmpty { return .token(token) }
            return switch result["status"]?.string ?? "" {
            // Both spellings have been seen.
            case "Internal Server Error", "INTERNAL": .later
            case let word: .refused(ProviderText.cleaned(word))
            }
        }
    }
}
