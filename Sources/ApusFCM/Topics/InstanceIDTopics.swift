internal import ApusCore
package import ApusHTTP2
internal import ApusProviders

/// Topic changes by the Instance ID interface: many tokens in one request. Pure: requests out, answers in.
///
/// Google removes it on 2027-09-29, and new projects cannot start using it: see ``TopicSubscriptions``.
///
/// Source: https://developers.google.com/instance-id/reference/server
package enum InstanceIDTopics {
    /// Tokens of one request.
    package static let tokensMax = 1_000
    /// Bytes of one request's tokens: what fits into a body, a kilobyte kept for what stands around them.
    package static let tokenBytesMax = HTTP2Limits.requestBodyBytesMax - 1_024
    /// Google's host.
    package static let host = "iid.googleapis.com"

    /// The tokens of each request, in order: as many as one takes.
    package static func batches(_ tokens: [String]) -> [ArraySlice<String>] {
        var batches: [ArraySlice<String>] = []
        var (start, bytes) = (0, 0)
        for (index, token) in tokens.enumerated() {
            // Two quotation marks and a comma.
            let size = token.utf8.count + 3
            if index - start == Self.tokensMax || bytes + size > Self.tokenBytesMax {
                batches.append(tokens[start..<index])
                (start, bytes) = (index, 0)
            }
            bytes += size
        }
        if start < tokens.count { batches.append(tokens[start...]) }
        return batches
    }

    /// The request of one batch.
    ///
    /// - Parameters:
    ///   - tokens: 1 to ``tokensMax``, none empty.
    ///   - authorization: "Bearer" and an access token.
    package static func request(
        _ change: FCMTopicChange,
        tokens: ArraySlice<String>,
        authority: String,
        authorization: HeaderValue,
    ) throws(HTTP2Error) -> PlainRequest {
        precondition((1...Self.tokensMax).contains(tokens.count) && !tokens.contains(""))
        let verb = change.verb == .subscribe ? "batchAdd" : "batchRemove"
        return try PlainRequest(
            method: "POST",
            authority: authority,
            path: "/iid/v1:\(verb)",
            headers: [
                HeaderField("authorization", authorization.text), HeaderField("access_token_auth", "true"),
                HeaderField("content-type", "application/json"),
            ],
            body: JSONValue.object([
                "to": .string("/topics/\(change.topic.text)"),
                "registration_tokens": .array(tokens.map { .string($0) }),
            ]).bytes,
        )
    }

    /// What became of each token, in the order of the request; of all of them the same when the request itself was refused.
    ///
    /// - Parameter count: how many tokens the request had.
    package static func outcomes(status: Int, body: [UInt8], count: Int) -> [FCMTopicOutcome] {
        let json = try? JSONValue(parsing: body, bytesMax: Self.bodyBytesMax)
        guard status == 200 else {
            return Array(repeating: Self.refusal(status, json?["error"]?.string), count: count)
        }
        guard let results = json?["results"]?.array, results.count == count else {
            return Array(repeating: .later, count: count)
        }
        return results.map { result in result["error"]?.string.map { FCMTopicOutcome(word: $0) } ?? .done }
    }

    /// A refused request says nothing of any token, whatever its word.
    private static func refusal(_ status: Int, _ word: String?) -> FCMTopicOutcome {
        switch status {
        case 429, 500...599: .later
        default: .refused(ProviderText.cleaned(word ?? "status \(status)"))
        }
    }

    /// Bytes of an answer that are read.
    package static let bodyBytesMax = 256 * 1_024
}
