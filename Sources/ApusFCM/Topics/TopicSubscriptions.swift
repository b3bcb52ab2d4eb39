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
        let place = "/v1/projects/\(project)/registrations/\(PathSegment.escaped(instance))/topicSubscriptions"
        let isSubscribing = change.verb == .subscribe
        return try PlainRequest(
            method: isSubscribing ? "PATCH" : "DELETE",
            authority: authority,
            path: "\(place)/\(PathSegment.escaped(change.topic.text))?allowMissing=true",
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
}
