internal import ApusCore
package import ApusHTTP2
internal import ApusProviders

/// A change of one of FCM's device groups: up to twenty devices of one user, reached by one key.
///
/// Source: https://firebase.google.com/docs/cloud-messaging/device-group
package struct FCMGroupChange: Hashable, Sendable {
    /// The kinds of changes.
    package enum Verb: String, CaseIterable, Sendable {
        /// A new group gets the members.
        case create
        /// The group gets further members.
        case add
        /// The group loses members; a group without members is deleted.
        case remove
    }

    /// The kind of change.
    package let verb: Verb
    /// The name of the group, which is unique in the project.
    package let name: String
    /// The group's notification key; empty for ``Verb/create``.
    package let key: String
    /// The registration tokens: 1 to ``DeviceGroups/membersMax``.
    package let tokens: [String]

    /// Creates a change.
    package init(_ verb: Verb, name: String, key: String = "", tokens: [String]) {
        self.verb = verb
        self.name = name
        self.key = key
        self.tokens = tokens
    }
}

/// Manages FCM's device groups. Pure: builds requests, parses answers.
///
/// Source: https://firebase.google.com/docs/cloud-messaging/device-group
package enum DeviceGroups {
    /// The maximum number of members of a group.
    package static let membersMax = 20
    private static let path = "/fcm/notification"

    /// The answer to a change or a question: the notification key, or the reason for which there is none.
    package enum Answer: Hashable, Sendable {
        /// The key to send with.
        case key(String)
        /// The change is not made.
        case refused(String)
    }

    /// Builds the request of a change.
    ///
    /// - Parameters:
    ///   - sender: the number of the project, which Google's console calls sender id.
    ///   - authorization: "Bearer" and an access token.
    package static func request(
        _ change: FCMGroupChange,
        sender: String,
        authority: String,
        authorization: HeaderValue,
    ) throws(HTTP2Error) -> PlainRequest {
        precondition((1...Self.membersMax).contains(change.tokens.count))
        var body: JSONObject = [
            "operation": .string(change.verb.rawValue), "notification_key_name": .string(change.name),
        ]
        if !change.key.isEmpty { body["notification_key"] = .string(change.key) }
        body["registration_ids"] = .array(change.tokens.map { .string($0) })
        return try PlainRequest(
            method: "POST",
            authority: authority,
            path: Self.path,
            headers: Self.headers(sender, authorization),
            body: JSONValue.object(body).bytes,
        )
    }

    /// Builds the request for the notification key of a group.
    package static func request(
        keyOf name: String,
        sender: String,
        authority: String,
        authorization: HeaderValue,
    ) throws(HTTP2Error) -> PlainRequest {
        try PlainRequest(
            method: "GET",
            authority: authority,
            path: "\(Self.path)?notification_key_name=\(PathSegment.escaped(name))",
            headers: Self.headers(sender, authorization),
            body: [],
        )
    }

    private static func headers(
        _ sender: String,
        _ authorization: HeaderValue,
    ) throws(HTTP2Error) -> [HeaderField] {
        [
            try HeaderField("authorization", authorization.text), try HeaderField("access_token_auth", "true"),
            try HeaderField("project_id", sender), try HeaderField("content-type", "application/json"),
        ]
    }

    /// Reads the answer to a request.
    package static func answer(status: Int, body: [UInt8]) -> Answer {
        let json = try? JSONValue(parsing: body, bytesMax: FCMAnswer.bodyBytesMax)
        if status == 200, let key = json?["notification_key"]?.string, !key.isEmpty { return .key(key) }
        let word = json?["error"]?.string ?? FCMAnswer(status: status, body: body).word ?? "status \(status)"
        return .refused(ProviderText.cleaned(word))
    }
}
