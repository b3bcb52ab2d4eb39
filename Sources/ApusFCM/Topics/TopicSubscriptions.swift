internal import ApusCore
package import ApusHTTP2
internal import ApusProviders

/// Changes topics by FCM's own interface of 2026: one app instance in each request, by token or installation id. Pure.
///
/// Both changes are requested in an idempotent form.
///
/// Source: https://firebase.google.com/docs/reference/fcmtopics/rest/v1/projects.registrations.topicSubscriptions
package enum TopicSubscriptions {
    /// Builds the request for one app instance.
    ///
    /// - Parameters:
    ///   - instance: a registration token or an installation id.
    ///   - authorization: "Bearer" and an access token.
    package static func request(
        _ change: FCMTopicChange,
        instance: String,
        project: String,
        authority: String,
        authorization: HeaderValue,
    ) throws(HTTP2Error) -> PlainRequest {
        let place = "/v1/projects/\(project)/registrations/\(Self.escaped(instance))/topicSubscriptions"
        let isSubscribing = change.verb == .subscribe
        return try PlainRequest(
            method: isSubscribing ? "PATCH" : "DELETE",
            authority: authority,
            path: "\(place)/\(Self.escaped(change.topic.text))?allowMissing=true",
            headers: [
                HeaderField("authorization", authorization.text), HeaderField("content-type", "application/json"),
            ],
            body: isSubscribing ? Array("{}".utf8) : [],
        )
    }

    /// Returns the result of a change.
    package static func outcome(status: Int, body: [UInt8]) -> FCMTopicOutcome {
        guard status != 200 else { return .done }
        let answer = FCMAnswer(status: status, body: body)
        let word = answer.word ?? "status \(status)"
        // Only this error says that the app instance is gone: a bare 404 is a wrong project, or a wrong address.
        if answer.errorCode == FCMErrorCode.unregistered.rawValue { return .gone }
        switch status {
        case 429, 500...599: return .later
        case 401, 403, 404: return .refused(word)
        default:
            let outcome = FCMTopicOutcome(word: answer.generalStatus ?? word)
            return outcome == .gone ? .refused(word) : outcome
        }
    }

    /// Escapes a path segment: everything but letters, digits and `-._~:` as `%xx` (RFC 3986 §3.3).
    private static func escaped(_ text: String) -> String {
        var result = ""
        for byte in text.utf8 {
            switch byte {
            case 0x61...0x7a, 0x41...0x5a, 0x30...0x39, 0x2d, 0x2e, 0x5f, 0x7e, 0x3a:
                result.unicodeScalars.append(Unicode.Scalar(byte))
            default: result += "%" + Hexadecimal.encode([byte]).uppercased()
            }
        }
        return result
    }
}
