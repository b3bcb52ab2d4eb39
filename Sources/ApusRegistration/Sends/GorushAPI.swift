internal import ApusCore
internal import ApusMessages
internal import ApusTLS
internal import HTTPTypes

/// Accepts sends in the form of gorush, so that backends which speak to it need another address and a key, and nothing else.
///
/// Valid notifications are published; the answer counts tokens as gorush does, and its log has one line for each token of a notification that is
/// not. Failures at providers are reported by receipts, as for every send.
///
/// Source: https://github.com/appleboy/gorush#post-apipush
struct GorushAPI: Sendable {
    /// The maximum of notifications in a request, which is gorush's default.
    static let notificationsMax = 100
    /// The maximum of tokens of a notification to Android, which is gorush's.
    static let androidTokensMax = 500

    let sends: SendAPI

    /// Answers `POST …/gorush/api/push`.
    func push(_ call: APICall) async throws -> APIResponse {
        _ = try call.request.contentType([.json])
        let list: [Reading]
        do throws(ProblemDetails) {
            list = try Self.notifications(call.request.body)
        } catch {
            return .json(.badRequest, ["code": 400, "message": .string(error.sentence)])
        }
        let lane = try SendAPI.lane(call)
        let key = SendAPI.idempotencyKeyName.flatMap { call.request.headers[$0] }
        var answer = Answer()
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
                    answer.sends.append(try await self.sends.publish(command, in: lane).send)
                } catch let problem as ProblemDetails {
                    // Nothing was published yet: the whole request may be repeated.
                    guard !answer.sends.isEmpty else { throw problem }
                    answer.refuse(notification, problem.sentence)
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
        guard notification.count > 0 else {
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
    private static func id(_ app: AppID, _ key: String, _ place: String) -> String {
        "k" + Hexadecimal.encode(SHA256.hash(utf8: "\(app)\u{0}\(key)\u{0}\(place)").prefix(16))
    }

    /// The answer in gorush's form, with the ids of the sends beside.
    private struct Answer {
        var counts = 0
        var sends: [String] = []
        private var logs: [JSONValue] = []

        mutating func refuse(_ notification: GorushNotification, _ error: String) {
            let tokens = notification.tokens.isEmpty ? [""] : notification.tokens
            for token in tokens {
                self.logs.append([
                    "notif_id": .string(notification.id), "type": "failed-push",
                    "platform": .string(notification.platform?.name ?? ""), "token": .string(token),
                    "message": .string(notification.message), "error": .string(error),
                ])
            }
        }

        var json: JSONObject {
            [
                "success": "ok", "counts": .integer(Int64(self.counts)), "logs": .array(self.logs),
                "sends": .array(self.sends.map { .string($0) }),
            ]
        }
    }
}
