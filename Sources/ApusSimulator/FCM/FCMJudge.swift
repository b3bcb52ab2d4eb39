package import ApusCore

/// Judges requests as FCM's HTTP v1 API would, and stricter where its SDKs are.
///
/// Pure: time and fates are arguments.
package struct FCMJudge: Sendable {
    /// Largest message to a device, in bytes; keys and values counted.
    package static let messageBytesMax = 4_096
    /// Largest message to a topic, in bytes.
    package static let topicMessageBytesMax = 2_048

    /// Who may send for which project.
    package var accounts: [ServiceAccount]
    /// Every project that exists.
    package var projectIDs: Set<String>
    private let tokens: AccessTokens

    /// A judge that honours `tokens`.
    package init(accounts: [ServiceAccount], projectIDs: Set<String>, tokens: AccessTokens) {
        self.accounts = accounts
        self.projectIDs = projectIDs
        self.tokens = tokens
    }

    /// What was asked for, as far as it could be read, and the answer.
    package struct Judgement: Sendable {
        /// The answer.
        package var answer: ProviderAnswer
        /// Token, installation id, "/topics/…" or condition; empty when there is none.
        package var address = ""
        /// Whether nothing was to be delivered.
        package var isValidation = false
    }

    /// What FCM says. `messageID` becomes part of the name of an accepted message.
    package func judge(
        _ request: ProviderRequest,
        fates: TokenFates,
        now: UnixMilliseconds,
        messageID: String,
    ) -> Judgement {
        var judgement = Judgement(answer: ProviderAnswer(status: 200))
        do throws(FCMRefusal) {
            let project = try self.project(of: request)
            try self.authorize(request, project: project, now: now)
            let body = try Self.body(of: request)
            judgement.isValidation = FCMSchema.member("validate_only", of: body)?.bool ?? false
            let message = FCMSchema.member("message", of: body)
            judgement.address = Self.address(of: message)
            try FCMMessageRules.check(body, message)
            try Self.checkFate(of: message, fates: fates, now: now)
            let name = "projects/\(project)/messages/\(judgement.isValidation ? "fake_message_id" : messageID)"
            judgement.answer = Self.accepted(name: name)
        } catch {
            judgement.answer = error.answer
        }
        return judgement
    }

    /// Whether a body asks for nothing to be delivered, as far as it can be read.
    static func isValidation(_ body: [UInt8]) -> Bool {
        let order = try? JSONValue(
            parsing: body,
            bytesMax: SimulatorLimits.requestBodyBytesMax,
            depthMax: SimulatorLimits.payloadDepthMax,
        )
        return FCMSchema.member("validate_only", of: order)?.bool ?? false
    }

    /// 200 with the message's name.
    package static func accepted(name: String) -> ProviderAnswer {
        ProviderAnswer(
            status: 200,
            headers: [ProviderHeader("content-type", "application/json; charset=UTF-8")],
            body: JSONValue.object(["name": .string(name)]).bytes,
        )
    }

    private func project(of request: ProviderRequest) throws(FCMRefusal) -> String {
        let parts = request.path.split(separator: "/", omittingEmptySubsequences: false)
        guard request.method == "POST", parts.count == 5, parts[0].isEmpty, parts[1] == "v1", parts[2] == "projects",
            parts[4] == "messages:send"
        else { throw FCMRefusal(404, "Requested entity was not found.") }
        let project = String(parts[3])
        guard self.projectIDs.contains(project) else { throw FCMRefusal(404, "Requested entity was not found.") }
        return project
    }

    /// Whose access token a request brings.
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

    private static func checkFate(
        of message: JSONValue?,
        fates: TokenFates,
        now: UnixMilliseconds,
    ) throws(FCMRefusal) {
        for name in ["token", "fid"] {
            guard let token = FCMSchema.member(name, of: message)?.string else { continue }
            let digest = TokenDigest(token, provider: .fcm)
            guard let fate = fates.fate(of: digest, now: now) else { continue }
            if let refusal = Self.refusal(for: fate, field: "message.\(name)", hasField: digest.low & 1 == 0) {
                throw refusal
            }
        }
    }

    private static func refusal(for fate: TokenFate, field: String, hasField: Bool) -> FCMRefusal? {
        switch fate {
        case .alive: nil
        case .dead, .expired: FCMRefusal(.unregistered, "Requested entity was not found.")
        case .bad: Self.invalidToken(field: field, hasField: hasField)
        case .foreign: FCMRefusal(.senderIDMismatch, "SenderId mismatch")
        }
    }

    /// What a message to a token of that fate gets; nil: it is alive.
    static func refusal(for fate: TokenFate) -> ProviderAnswer? {
        Self.refusal(for: fate, field: "message.token", hasField: true)?.answer
    }

    /// Google's page shows a bad token with FcmError alone; with BadRequest beside it, in either order, it has been seen as
    /// well. Half of the tokens get one form, half the other.
    private static func invalidToken(field: String, hasField: Bool) -> FCMRefusal {
        let sentence = "The registration token is not a valid FCM registration token"
        var refusal = FCMRefusal(.invalidArgument, sentence)
        if hasField { refusal.violations = [FCMViolation(field: field, description: sentence)] }
        return refusal
    }
}
