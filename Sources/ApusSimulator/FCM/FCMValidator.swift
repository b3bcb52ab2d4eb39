package import ApusCore

/// Validates requests like FCM's HTTP v1 API, and more strictly where Google's SDKs are stricter.
///
/// Pure: the time and the behaviors of tokens are arguments.
package struct FCMValidator: Sendable {
    /// The maximum bytes of a message to a device; keys and values count.
    package static let messageBytesMax = 4_096
    /// The maximum bytes of a message to a topic.
    package static let topicMessageBytesMax = 2_048

    /// The accounts that may send, with their projects.
    package var accounts: [ServiceAccount]
    private let tokens: AccessTokens

    /// Creates a validator that accepts `tokens`.
    package init(accounts: [ServiceAccount], tokens: AccessTokens) {
        self.accounts = accounts
        self.tokens = tokens
    }

    /// The answer to a request, and the parts of the request that could be read.
    package struct Outcome: Sendable {
        /// The answer.
        package var answer: ProviderAnswer
        /// The token, installation id, "/topics/…" or condition; empty when there is none.
        package var address = ""
        /// True for a validate-only request.
        package var isValidation = false
    }

    /// Answers a request. `messageID` becomes part of the name of an accepted message.
    package func validate(
        _ request: ProviderRequest,
        behaviors: TokenBehaviors,
        now: UnixMilliseconds,
        messageID: String,
    ) -> Outcome {
        var outcome = Outcome(answer: ProviderAnswer(status: 200))
        do throws(FCMRefusal) {
            let project = try self.project(of: request)
            try self.authorize(request, project: project, now: now)
            let body = try Self.body(of: request)
            outcome.isValidation = FCMSchema.member("validate_only", of: body)?.bool ?? false
            let message = FCMSchema.member("message", of: body)
            outcome.address = Self.address(of: message)
            try FCMMessageRules.check(body, message)
            try Self.checkBehavior(of: message, behaviors: behaviors, now: now)
            let name = "projects/\(project)/messages/\(outcome.isValidation ? "fake_message_id" : messageID)"
            outcome.answer = Self.accepted(name: name)
        } catch {
            outcome.answer = error.answer
        }
        return outcome
    }

    /// Returns true for the body of a validate-only request, as far as it can be read.
    static func isValidation(_ body: [UInt8]) -> Bool {
        let order = try? JSONValue(
            parsing: body,
            bytesMax: SimulatorLimits.requestBodyBytesMax,
            depthMax: SimulatorLimits.payloadDepthMax,
        )
        return FCMSchema.member("validate_only", of: order)?.bool ?? false
    }

    /// Returns the answer to an accepted message with the given name.
    package static func accepted(name: String) -> ProviderAnswer {
        ProviderAnswer(
            status: 200,
            json: ["name": .string(name)],
            contentType: "application/json; charset=UTF-8",
        )
    }

    private func project(of request: ProviderRequest) throws(FCMRefusal) -> String {
        let parts = request.path.split(separator: "/", omittingEmptySubsequences: false)
        guard request.method == "POST", parts.count == 5, parts[0].isEmpty, parts[1] == "v1", parts[2] == "projects",
            parts[4] == "messages:send"
        else { throw FCMRefusal(404, "Requested entity was not found.") }
        return String(parts[3])
    }

    /// Returns the account of a request's access token.
    func account(of request: ProviderRequest, now: UnixMilliseconds) throws(FCMRefusal) -> ServiceAccount {
        let sentence = "Expected OAuth 2 access token, login cookie or other valid authentication credential."
        guard let header = request.first("authorization") else {
            throw FCMRefusal(401, "Request is missing required authentication credential. \(sentence)")
        }
        let parts = header.split(separator: " ", maxSplits: 1)
        guard parts.count == 2, parts[0].lowercased() == "bearer", let grant = self.tokens.grant(parts[1]),
            now < grant.expiresAt, Int(grant.account) < self.accounts.count
        else { throw FCMRefusal(401, "Request had invalid authentication credentials. \(sentence)") }
        return self.accounts[Int(grant.account)]
    }

    /// Checks that the request's account may send for a project. A project that does not exist is refused in the same words.
    func authorize(
        _ request: ProviderRequest,
        project: String,
        now: UnixMilliseconds,
    ) throws(FCMRefusal) {
        guard try self.account(of: request, now: now).projectIDs.contains(project) else {
            throw FCMRefusal(
                403,
                "Permission 'cloudmessaging.messages.create' denied on resource "
                    + "'//cloudresourcemanager.googleapis.com/projects/\(project)' (or it may not exist).",
            )
        }
    }

    private static func body(of request: ProviderRequest) throws(FCMRefusal) -> JSONValue {
        let type = request.first("content-type")?.lowercased() ?? ""
        guard type == "application/json" || type.hasPrefix("application/json;") else {
            throw FCMRefusal(400, "Invalid JSON payload received. The content type must be application/json.")
        }
        do throws(JSONError) {
            return try JSONValue(
                parsing: request.body,
                bytesMax: SimulatorLimits.requestBodyBytesMax,
                depthMax: SimulatorLimits.payloadDepthMax,
            )
        } catch {
            throw FCMRefusal(400, "Invalid JSON payload received. \(error)")
        }
    }

    private static func address(of message: JSONValue?) -> String {
        for name in ["token", "fid", "condition"] {
            if let text = FCMSchema.member(name, of: message)?.string { return text }
        }
        guard let topic = FCMSchema.member("topic", of: message)?.string else { return "" }
        return topic.hasPrefix("/topics/") ? topic : "/topics/\(topic)"
    }

    private static func checkBehavior(
        of message: JSONValue?,
        behaviors: TokenBehaviors,
        now: UnixMilliseconds,
    ) throws(FCMRefusal) {
        for name in ["token", "fid"] {
            guard let token = FCMSchema.member(name, of: message)?.string else { continue }
            let digest = TokenDigest(token, provider: .fcm)
            guard let behavior = behaviors.behavior(of: digest, now: now) else { continue }
            if let refusal = Self.refusal(for: behavior, field: "message.\(name)", hasField: digest.low & 1 == 0) {
                throw refusal
            }
        }
    }

    private static func refusal(for behavior: TokenBehavior, field: String, hasField: Bool) -> FCMRefusal? {
        switch behavior {
        case .alive: nil
        case .dead, .expired: FCMRefusal(.unregistered, "Requested entity was not found.")
        case .bad: Self.invalidToken(field: field, hasField: hasField)
        case .foreign: FCMRefusal(.senderIDMismatch, "SenderId mismatch")
        }
    }

    /// Returns the answer to a message to a token with the given behavior; nil when it is alive.
    static func refusal(for behavior: TokenBehavior) -> ProviderAnswer? {
        Self.refusal(for: behavior, field: "message.token", hasField: true)?.answer
    }

    /// Returns the refusal of a bad token. Google's page shows it with FcmError alone; it was also seen with BadRequest
    /// beside it, in either order. Half of the tokens get one form, half the other.
    private static func invalidToken(field: String, hasField: Bool) -> FCMRefusal {
        let sentence = "The registration token is not a valid FCM registration token"
        var refusal = FCMRefusal(.invalidArgument, sentence)
        if hasField { refusal.violations = [FCMViolation(field: field, description: sentence)] }
        return refusal
    }
}
