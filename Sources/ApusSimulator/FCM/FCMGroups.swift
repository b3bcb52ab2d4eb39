internal import ApusCore
internal import ApusTLS
internal import Synchronization

/// Simulates the management of device groups. A message to a group's key is one message, as with topics.
///
/// Source: https://firebase.google.com/docs/cloud-messaging/device-group
final class FCMGroups: Sendable {
    /// The maximum number of members of a group.
    static let membersMax = 20

    /// The members of each group, by name.
    private let groups = Mutex<[String: Set<String>]>([:])

    /// Returns true when a path is for groups.
    static func owns(_ path: String) -> Bool { path == "/fcm/notification" || path.hasPrefix("/fcm/notification?") }

    /// Deletes all groups.
    func reset() { self.groups.withLock { $0 = [:] } }

    /// Returns the members of a group; nil when there is no such group.
    func members(of name: String) -> Set<String>? { self.groups.withLock { $0[name] } }

    /// The notification key of a group: always the same.
    static func key(_ name: String) -> String { "APA91b\(Hexadecimal.encode(SHA256.hash(utf8: name)))" }

    /// Answers a request.
    func validate(
        _ request: ProviderRequest,
        validator: FCMValidator,
        behaviors: TokenBehaviors,
        now: UnixMilliseconds,
    ) -> ProviderAnswer {
        guard (try? validator.account(of: request, now: now)) != nil, request.first("access_token_auth") == "true"
        else {
            return Self.answer(401, ["error": "UNAUTHENTICATED"])
        }
        guard let sender = request.first("project_id"), !sender.isEmpty,
            sender.utf8.allSatisfy({ (0x30...0x39).contains($0) })
        else { return Self.answer(400, ["error": "invalid project_id"]) }
        if request.method == "GET" {
            let query = request.path.split(separator: "?", maxSplits: 1).dropFirst().first ?? ""
            let name = FormParser.parse(Array(query.utf8))?["notification_key_name"] ?? ""
            guard self.members(of: name) != nil else {
                return Self.answer(404, ["error": "notification_key not found"])
            }
            return Self.answer(200, ["notification_key": .string(Self.key(name))])
        }
        let order = try? JSONValue(parsing: request.body, bytesMax: SimulatorLimits.requestBodyBytesMax)
        guard request.method == "POST", let name = order?["notification_key_name"]?.string, !name.isEmpty,
            let tokens = order?["registration_ids"]?.array?.compactMap(\.string), !tokens.isEmpty
        else { return Self.answer(400, ["error": "INVALID_ARGUMENT"]) }
        let isDead = tokens.contains { token in
            switch behaviors.behavior(of: TokenDigest(token, provider: .fcm), now: now) {
            case nil, .alive: false
            case .dead, .expired, .bad, .foreign: true
            }
        }
        let word = self.groups.withLock { groups -> String? in
            let known = groups[name]
            switch order?["operation"]?.string {
            case "create":
                guard known == nil else { return "notification_key already exists" }
                guard !isDead else { return "no valid registration ids" }
            case "add", "remove":
                guard known != nil, order?["notification_key"]?.string == Self.key(name) else {
                    return "notification_key not found"
                }
            default: return "INVALID_ARGUMENT"
            }
            let members =
                order?["operation"]?.string == "remove" ? known?.subtracting(tokens) : (known ?? []).union(tokens)
            guard let members, members.count <= Self.membersMax else { return "too many registration ids" }
            groups[name] = members.isEmpty ? nil : members
            return nil
        }
        if let word { return Self.answer(400, ["error": .string(word)]) }
        return Self.answer(200, ["notification_key": .string(Self.key(name))])
    }

    private static func answer(_ status: Int, _ object: JSONObject) -> ProviderAnswer {
        ProviderAnswer(status: status, json: object, contentType: "application/json; charset=UTF-8")
    }
}
