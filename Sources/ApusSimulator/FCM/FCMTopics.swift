internal import ApusCore
internal import ApusTLS
internal import Synchronization

/// Simulates subscriptions of topics, by the Instance ID interface and by FCM's own of 2026. As with Google, a message
/// to a topic is one message: the ledger does not list the devices that it reaches.
///
/// Source: https://developers.google.com/instance-id/reference/server,
/// https://firebase.google.com/docs/reference/fcmtopics/rest/v1/projects.registrations.topicSubscriptions
package final class FCMTopics: Sendable {
    /// The maximum number of tokens of one batch.
    package static let batchMax = 1_000
    /// The maximum number of topics of one app instance.
    static let perInstanceMax = 2_000

    /// The maximum number of subscriptions on a page, unless fewer are requested; Google's number is not documented.
    package static let pageMax = 1_000
    /// The beginning of the Instance ID interface's paths.
    static let instanceIDPrefix = "/iid/"
    /// The beginning of the paths of its batches.
    static let batchPrefix = "/iid/v1:batch"
    /// The maximum number of Apple's tokens of one import.
    static let importMax = 100
    /// The errors that Instance ID names for a token of a batch
    /// (https://github.com/firebase/firebase-admin-node, `messaging-internal` and `error`).
    static let resultWords = [
        "NOT_FOUND", "INVALID_ARGUMENT", "TOO_MANY_TOPICS", "RESOURCE_EXHAUSTED", "PERMISSION_DENIED",
        "DEADLINE_EXCEEDED",
        "INTERNAL", "UNKNOWN",
    ]

    /// The topics of each app instance, with the times of their subscription.
    private let subscriptions = Mutex<[String: [String: UnixMilliseconds]]>([:])

    /// Creates a store without subscriptions.
    package init() {}

    /// Returns true when a path is for topics.
    package static func owns(_ path: String) -> Bool {
        path.hasPrefix(Self.instanceIDPrefix) || path.contains("/topicSubscriptions")
    }

    /// Deletes all subscriptions.
    func reset() { self.subscriptions.withLock { $0 = [:] } }

    /// Returns the tokens and installation ids in a topic.
    func members(of topic: String) -> Set<String> {
        self.subscriptions.withLock { all in Set(all.filter { $0.value[topic] != nil }.keys) }
    }

    /// Answers a request.
    ///
    /// - Parameter fault: a ``Fault/result(_:tokensContaining:)`` applies to tokens in a batch; other faults have no effect here.
    func validate(
        _ request: ProviderRequest,
        validator: FCMValidator,
        behaviors: TokenBehaviors,
        now: UnixMilliseconds,
        fault: Fault? = nil,
    ) -> ProviderAnswer {
        if request.path.hasPrefix(Self.instanceIDPrefix) {
            return self.instanceID(request, validator: validator, behaviors: behaviors, now: now, fault: fault)
        }
        do throws(FCMRefusal) {
            return try self.subscription(request, validator: validator, behaviors: behaviors, now: now)
        } catch {
            return error.answer
        }
    }

    /// Converts the refusal of a message to one of a topic: without FcmError, and for Instance ID as a bare word
    /// (https://developers.google.com/instance-id/reference/server). A page of a front end is unchanged.
    static func worded(_ answer: ProviderAnswer, path: String) -> ProviderAnswer {
        let body = try? JSONValue(parsing: answer.body, bytesMax: SimulatorLimits.requestBodyBytesMax)
        guard let error = body?["error"], let word = error["status"] else { return answer }
        var answer = answer
        if path.hasPrefix(Self.instanceIDPrefix) {
            answer.body = JSONValue.object(["error": word]).bytes
        } else {
            let bare: JSONObject = [
                "code": error["code"] ?? .null, "message": error["message"] ?? .null, "status": word,
            ]
            answer.body = JSONValue.object(["error": .object(bare)]).bytes
        }
        return answer
    }

    private static func json(_ status: Int, _ object: JSONObject) -> ProviderAnswer {
        ProviderAnswer(status: status, json: object, contentType: "application/json; charset=UTF-8")
    }

    private static func isTopic(_ name: String) -> Bool { (try? TopicName(name))?.text == name }

    /// Returns the error of an app instance, in the vocabulary of both interfaces; nil when it is alive.
    private func error(of instance: String, _ behaviors: TokenBehaviors, _ now: UnixMilliseconds) -> String? {
        switch behaviors.behavior(of: TokenDigest(instance, provider: .fcm), now: now) {
        case nil, .alive: nil
        case .dead, .expired: "NOT_FOUND"
        case .bad: "INVALID_ARGUMENT"
        case .foreign: "PERMISSION_DENIED"
        }
    }

    /// Adds or removes a subscription; returns the error, if any.
    private func change(_ instance: String, _ topic: String, isIn: Bool, _ now: UnixMilliseconds) -> String? {
        self.subscriptions.withLock { subscriptions in
            if isIn {
                guard subscriptions[instance, default: [:]][topic] == nil else { return nil }
                guard subscriptions[instance, default: [:]].count < Self.perInstanceMax else {
                    return "TOO_MANY_TOPICS"
                }
                subscriptions[instance, default: [:]][topic] = now
            } else {
                subscriptions[instance]?[topic] = nil
            }
            return nil
        }
    }

    // MARK: Instance ID

    private func instanceID(
        _ request: ProviderRequest,
        validator: FCMValidator,
        behaviors: TokenBehaviors,
        now: UnixMilliseconds,
        fault: Fault?,
    ) -> ProviderAnswer {
        guard let account = try? validator.account(of: request, now: now), request.first("access_token_auth") == "true"
        else { return Self.json(401, ["error": "UNAUTHENTICATED"]) }
        let halves = request.path.split(separator: "?", maxSplits: 1)
        let parts = halves[0].split(separator: "/").map(Self.unescaped)
        switch (request.method, parts.count) {
        case ("POST", 2) where parts[1] == "v1:batchAdd":
            return self.batch(request, isIn: true, behaviors: behaviors, now: now, fault: fault)
        case ("POST", 2) where parts[1] == "v1:batchRemove":
            return self.batch(request, isIn: false, behaviors: behaviors, now: now, fault: fault)
        case ("POST", 2) where parts[1] == "v1:batchImport": return Self.imported(request, behaviors, now)
        case ("POST", 6) where parts[1] == "v1" && parts[3] == "rel" && parts[4] == "topics":
            guard Self.isTopic(parts[5]) else { return Self.json(400, ["error": "InvalidTopicName"]) }
            let word = self.error(of: parts[2], behaviors, now) ?? self.change(parts[2], parts[5], isIn: true, now)
            return word.map { Self.json($0 == "NOT_FOUND" ? 404 : 400, ["error": .string($0)]) } ?? Self.json(200, [:])
        case ("GET", 3) where parts[1] == "info":
            guard self.error(of: parts[2], behaviors, now) == nil else {
                return Self.json(404, ["error": "No information found about this instance id."])
            }
            let isDetailed = halves.count == 2 && halves[1].split(separator: "&").contains("details=true")
            return self.info(of: parts[2], account, isDetailed: isDetailed)
        default: return Self.json(404, ["error": "NOT_FOUND"])
        }
    }

    /// Describes an app instance, with its topics and the days of their subscription when details are asked for.
    private func info(of instance: String, _ account: ServiceAccount, isDetailed: Bool) -> ProviderAnswer {
        var info: JSONObject = [
            "application": "example.apus", "authorizedEntity": .string(account.projectIDs.min() ?? ""),
            "platform": "ANDROID",
        ]
        let topics = self.subscriptions.withLock { $0[instance, default: [:]] }
        if isDetailed, !topics.isEmpty {
            var members: JSONObject = [:]
            for (name, since) in topics.sorted(by: { $0.key < $1.key }) {
                members[name] = ["addDate": .string(String(since.timestamp.prefix(10)))]
            }
            info["rel"] = ["topics": .object(members)]
        }
        return Self.json(200, info)
    }

    /// Gives each of Apple's tokens a registration token, always the same.
    private static func imported(
        _ request: ProviderRequest,
        _ behaviors: TokenBehaviors,
        _ now: UnixMilliseconds,
    ) -> ProviderAnswer {
        let order = try? JSONValue(parsing: request.body, bytesMax: SimulatorLimits.requestBodyBytesMax)
        guard let application = order?["application"]?.string, !application.isEmpty, order?["sandbox"]?.bool != nil,
            let tokens = order?["apns_tokens"]?.array?.map({ $0.string ?? "" }),
            (1...Self.importMax).contains(tokens.count)
        else { return Self.json(400, ["error": "INVALID_ARGUMENT"]) }
        let results: [JSONValue] = tokens.map { token in
            let isToken = Hexadecimal.decode(token).map { !$0.isEmpty } ?? false
            let behavior = behaviors.behavior(of: TokenDigest(token, provider: .apns), now: now)
            guard isToken, behavior == nil || behavior == .alive else {
                return ["apns_token": .string(token), "status": "INVALID_ARGUMENT"]
            }
            return [
                "apns_token": .string(token), "status": "OK",
                "registration_token": .string(Self.registrationToken(importing: token)),
            ]
        }
        return Self.json(200, ["results": .array(results)])
    }

    /// The registration token of an imported token of Apple.
    package static func registrationToken(importing token: String) -> String {
        "imported:APA91b\(Hexadecimal.encode(SHA256.hash(utf8: token.lowercased())))"
    }

    private func batch(
        _ request: ProviderRequest,
        isIn: Bool,
        behaviors: TokenBehaviors,
        now: UnixMilliseconds,
        fault: Fault?,
    ) -> ProviderAnswer {
        let order = try? JSONValue(parsing: request.body, bytesMax: SimulatorLimits.requestBodyBytesMax)
        let prefix = "/topics/"
        guard let to = order?["to"]?.string, to.hasPrefix(prefix),
            let tokens = order?["registration_tokens"]?.array?.map({ $0.string ?? "" }),
            (1...Self.batchMax).contains(tokens.count), !tokens.contains(""),
            Self.isTopic(String(to.dropFirst(prefix.count)))
        else { return Self.json(400, ["error": "INVALID_ARGUMENT"]) }
        let topic = String(to.dropFirst(prefix.count))
        let results: [JSONValue] = tokens.map { token in
            let word =
                Self.struck(token, by: fault) ?? self.error(of: token, behaviors, now)
                ?? self.change(token, topic, isIn: isIn, now)
            return word.map { ["error": .string($0)] } ?? [:]
        }
        return Self.json(200, ["results": .array(results)])
    }

    private static func struck(_ token: String, by fault: Fault?) -> String? {
        guard case .result(let word, let part) = fault, part.map({ token.contains($0) }) ?? true else { return nil }
        return word
    }

    // MARK: topicSubscriptions

    private func subscription(
        _ request: ProviderRequest,
        validator: FCMValidator,
        behaviors: TokenBehaviors,
        now: UnixMilliseconds,
    ) throws(FCMRefusal) -> ProviderAnswer {
        let halves = request.path.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        let parts = halves[0].split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(Self.unescaped)
        let query = FormParser.parse(Array((halves.count == 2 ? halves[1] : "").utf8)) ?? [:]
        guard parts.count >= 6, parts[0] == "v1", parts[1] == "projects", parts[3] == "registrations",
            parts[5] == "topicSubscriptions", parts.count <= 7
        else { throw FCMRefusal(404, "Requested entity was not found.") }
        try validator.authorize(request, project: parts[2], now: now)
        let instance = parts[4]
        // A new subscription names its topic in the query, other requests in the path.
        let name = parts.count == 7 ? parts[6] : query["topic_name"] ?? query["topicName"] ?? ""
        if request.method == "GET" {
            guard parts.count == 7 else { return try self.list(parts[2], instance, query) }
            return try self.read(parts[2], instance, topic: name)
        }
        guard Self.isTopic(name) else { throw FCMRefusal(400, "Invalid topic name.") }
        switch self.error(of: instance, behaviors, now) {
        case nil: break
        case "NOT_FOUND": throw FCMRefusal(.unregistered, "Requested entity was not found.")
        case "PERMISSION_DENIED": throw FCMRefusal(403, "The registration belongs to another project.")
        default: throw FCMRefusal(400, "The registration is invalid.")
        }
        let isThere = self.subscriptions.withLock { $0[instance]?[name] != nil }
        let allowsMissing = (query["allowMissing"] ?? query["allow_missing"]) == "true"
        switch (request.method, parts.count) {
        case ("POST", 6):
            guard !isThere else { throw FCMRefusal(409, "Requested entity already exists.") }
        case ("PATCH", 7), ("DELETE", 7):
            guard isThere || allowsMissing else { throw FCMRefusal(404, "Requested entity was not found.") }
        default: throw FCMRefusal(404, "Requested entity was not found.")
        }
        guard self.change(instance, name, isIn: request.method != "DELETE", now) == nil else {
            throw FCMRefusal(429, "Too many topics.")
        }
        return request.method == "DELETE" ? Self.json(200, [:]) : try self.read(parts[2], instance, topic: name)
    }

    private func read(_ project: String, _ instance: String, topic: String) throws(FCMRefusal) -> ProviderAnswer {
        guard let since = self.subscriptions.withLock({ $0[instance]?[topic] }) else {
            throw FCMRefusal(404, "Requested entity was not found.")
        }
        return Self.json(200, Self.resource(project, instance, topic, since))
    }

    /// Returns a page: `pageToken` is the last topic of the previous page.
    private func list(
        _ project: String,
        _ instance: String,
        _ query: [String: String],
    ) throws(FCMRefusal) -> ProviderAnswer {
        guard let size = Int(query["pageSize"] ?? query["page_size"] ?? "0"), size >= 0 else {
            throw FCMRefusal(400, "Invalid page size.")
        }
        let after = query["pageToken"] ?? query["page_token"] ?? ""
        guard after.isEmpty || Self.isTopic(after) else { throw FCMRefusal(400, "Invalid page token.") }
        let all = self.subscriptions.withLock { $0[instance, default: [:]] }
        let rest = all.filter { $0.key > after }.sorted { $0.key < $1.key }
        let page = rest.prefix(size == 0 ? Self.pageMax : min(size, Self.pageMax))
        let resources = page.map { JSONValue.object(Self.resource(project, instance, $0.key, $0.value)) }
        var answer: JSONObject = ["topicSubscriptions": .array(resources)]
        if page.count < rest.count, let last = page.last { answer["nextPageToken"] = .string(last.key) }
        return Self.json(200, answer)
    }

    private static func resource(
        _ project: String,
        _ instance: String,
        _ topic: String,
        _ since: UnixMilliseconds,
    ) -> JSONObject {
        [
            "name": .string("projects/\(project)/registrations/\(instance)/topicSubscriptions/\(topic)"),
            "topic_name": .string(topic), "create_time": .string(since.timestamp),
        ]
    }

    /// Decodes the `%xx` of a path segment; returns it unchanged when it has none or they are malformed.
    private static func unescaped(_ segment: Substring) -> String {
        FormParser.parse(Array("s=\(segment.replacing("+", with: "%2B"))".utf8))?["s"] ?? String(segment)
    }
}
