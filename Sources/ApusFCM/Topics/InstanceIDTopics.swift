internal import ApusCore
package import ApusHTTP2
internal import ApusProviders

/// Changes topics by the Instance ID interface: many tokens in one request. Pure: builds requests, parses answers.
///
/// Google removes the interface on 2027-09-29, and new projects cannot start using it: see ``TopicSubscriptions``.
///
/// Source: https://developers.google.com/instance-id/reference/server
package enum InstanceIDTopics {
    /// The maximum number of tokens of one request.
    package static let tokensMax = 1_000
    /// The maximum bytes of one request's tokens: the limit of a body without a kilobyte for the rest.
    package static let tokenBytesMax = HTTP2Limits.requestBodyBytesMax - 1_024
    /// The host of the interface.
    package static let host = "iid.googleapis.com"

    /// Splits tokens into the batches of requests, in order, each as large as one request allows.
    package static func batches(_ tokens: [String]) -> [ArraySlice<String>] {
        var batches: [ArraySlice<String>] = []
        var (start, bytes) = (0, 0)
        for (index, token) in tokens.enumerated() {
            // Each token takes two quotation marks and a comma.
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

    /// Builds the request of one batch.
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

    /// Returns the result for each token, in the order of the request; the same for all when the request itself was refused.
    ///
    /// - Parameter count: the number of tokens in the request.
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

    /// Classifies a refused request, which says nothing about any token, whatever its reason.
    private static func refusal(_ status: Int, _ word: String?) -> FCMTopicOutcome {
        switch status {
        case 429, 500...599: .later
        default: .refused(ProviderText.cleaned(word ?? "status \(status)"))
        }
    }

    /// The maximum bytes of an answer that are read.
    package static let bodyBytesMax = 256 * 1_024
}
