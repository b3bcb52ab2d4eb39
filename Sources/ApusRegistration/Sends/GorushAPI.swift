internal import ApusCore
internal import ApusMessages
internal import ApusTLS
internal import HTTPTypes

/// Accepts sends in the form of gorush, so that backends which speak to it need another address and a key, and nothing else.
///
/// Valid notifications are published; the answer counts tokens as gorush does, and its log has one line for each token of a notification that is
/// not, up to a maximum of lines. Failures at providers are reported by receipts, as for every send.
///
/// Source: https://github.com/appleboy/gorush#post-apipush
struct GorushAPI: Sendable {
    /// The maximum of notifications in a request, which is gorush's default.
    static let notificationsMax = 100
    /// The maximum of tokens of a notification to Android, which is gorush's.
    static let androidTokensMax = 500
    /// The maximum of tokens in a request: more of Apple's do not fit into its body.
    static let tokensMax = 65_536

    let sends: SendAPI

    /// Answers `POST …/gorush/api/push`.
    func push(_ call: APICall) async throws -> APIResponse {
        // gorush reads JSON whatever the type is called.
        try call.request.checkEncoding()
        let list: [Reading]
        do throws(ProblemDetails) {
            list = try Self.notifications(call.request.body)
        } catch {
            return .json(.badRequest, ["code": 400, "message": .string(error.sentence)])
        }
        let lane = try SendAPI.lane(call)
        let key = try SendAPI.idempotencyKey(call)
        var answer = GorushAnswer()
        for (index, reading) in list.enumerated() {
            let notification = reading.notification
            answer.counts += notification.count
            let commands: [SendCommand]
            do throws(ProblemDetails) {
                commands = try self.commands(reading, call.app)
            } catch {
                answer.refuse(notification, error.sentence)
                continue
            }
            for (part, command) in commands.enumerated() {
                var command = command
                command.id = key.map { Self.id(call.app, $0, "\(index)/\(part)") } ?? SendAPI.newID()
                do {
                    let sent = try await self.sends.publish(command, in: lane, waitsForReplica: key != nil)
                    answer.sends.append(sent.send)
                } catch let problem as ProblemDetails {
                    // Nothing was published yet, or what was has a key by which it is found: the whole request may be repeated.
                    let isRepeatable = key != nil && problem.kind == .unavailable
                    guard !answer.sends.isEmpty, !isRepeatable else { throw problem }
                    let tokens = commands[part...].flatMap { GorushNotification.tokens(of: $0) }
                    answer.refuse(notification, tokens: tokens, problem.sentence)
                    break
                }
            }
        }
        return .json(.ok, answer.json)
    }

    /// A notification as it was read, with what is wrong with it.
    struct Reading {
        var notification: GorushNotification
        var mistakes: [ProblemDetails.Part]
    }

    /// Reads the notifications of a body. Mistakes of one are its own.
    ///
    /// - Throws: in gorush's words, when there are none or too many.
    static func notifications(_ body: [UInt8]) throws(ProblemDetails) -> [Reading] {
        var reader = MemberReader(try RegistrationBody.object(body, bytesMax: APILimits.gorushBytesMax), isOpen: true)
        let list = reader.value("notifications")?.array
        _ = reader.finish()
        guard let list else { throw ProblemDetails(.malformedRequest, "Missing notifications field.") }
        guard !list.isEmpty else { throw ProblemDetails(.malformedRequest, "Notifications field is empty.") }
        guard list.count <= Self.notificationsMax else {
            let detail = "Number of notifications(\(list.count)) over limit(\(Self.notificationsMax))"
            throw ProblemDetails(.malformedRequest, detail)
        }
        var tokens = 0
        for element in list { tokens += element["tokens"]?.array?.count ?? 0 }
        guard tokens <= Self.tokensMax else {
            throw ProblemDetails(.malformedRequest, "Number of tokens(\(tokens)) over limit(\(Self.tokensMax))")
        }
        return list.enumerated().map { index, element in
            var reader = MemberReader(element.object ?? [:], at: "#/notifications/\(index)", isOpen: true)
            if element.object == nil { reader.note("", "must be an object") }
            let notification = GorushNotification(&reader)
            return Reading(notification: notification, mistakes: reader.finish())
        }
    }

    /// Returns the commands of a notification.
    ///
    /// - Throws: what is wrong with it.
    private func commands(_ reading: Reading, _ app: AppID) throws(ProblemDetails) -> [SendCommand] {
        let notification = reading.notification
        guard reading.mistakes.isEmpty else { throw .invalid(reading.mistakes) }
        guard notification.platform != .huawei else {
            throw ProblemDetails(.invalidContent, "Huawei's push service is not one that is sent to")
        }
        guard !notification.tokens.isEmpty || notification.hasTopic else {
            throw ProblemDetails(.invalidContent, "the notification has no tokens, and no topic of FCM")
        }
        guard notification.platform != .android || notification.tokens.count <= Self.androidTokensMax else {
            let detail = "the message may specify at most \(Self.androidTokensMax) registration IDs"
            throw ProblemDetails(.invalidContent, detail)
        }
        let commands = notification.commands(for: app)
        for command in commands { try SendBody.check(command, now: self.sends.clock.now()) }
        return commands
    }

    /// Returns the id of a send of a request with a key, so that the request may be repeated.
    ///
    /// - Parameter place: the numbers of the notification in the request and of its part, such as `0/1`.
    static func id(_ app: AppID, _ key: String, _ place: String) -> String {
        "k" + Hexadecimal.encode(SHA256.hash(utf8: "\(app)\u{0}\(key)\u{0}\(place)").prefix(16))
    }
}

/// The answer in gorush's form, with the ids of the sends beside. Its size has a limit, whatever the request repeats.
struct GorushAnswer {
    /// The maximum of lines in the log of an answer.
    static let logLinesMax = 100
    /// The maximum of bytes of each text in a line of the log: the publisher's id and message, a token, what is wrong.
    static let logTextBytesMax = 512

    /// The tokens and topics of all notifications, as gorush counts them.
    var counts = 0
    /// The ids of the sends.
    var sends: [String] = []
    private var logs: [JSONValue] = []
    /// The lines beyond the maximum.
    private var omittedLogs = 0

    /// Adds the lines of a notification that is not published, one for each token.
    ///
    /// - Parameter tokens: the tokens of its parts that are not published, an empty one for a topic; nil for all.
    mutating func refuse(_ notification: GorushNotification, tokens: [String]? = nil, _ error: String) {
        let tokens = tokens ?? (notification.tokens.isEmpty ? [""] : notification.tokens)
        let named = tokens.prefix(Self.logLinesMax - self.logs.count)
        self.omittedLogs += tokens.count - named.count
        for token in named {
            self.logs.append([
                "notif_id": Self.clipped(notification.id), "type": "failed-push",
                "platform": .string(notification.platform?.name ?? ""), "token": Self.clipped(token),
                "message": Self.clipped(notification.message), "error": Self.clipped(error),
            ])
        }
    }

    private static func clipped(_ text: String) -> JSONValue { .string(text.clipped(toBytes: Self.logTextBytesMax)) }

    /// The body of the answer.
    var json: JSONObject {
        [
            "success": "ok", "counts": .integer(Int64(self.counts)), "logs": .array(self.logs),
            "omitted_logs": .integer(Int64(self.omittedLogs)), "sends": .array(self.sends.map { .string($0) }),
        ]
    }
}
