internal import ApusCore
internal import Synchronization

/// The broadcast channels of a simulated Apple: made, read, listed and deleted as its management interface does, and
/// published to.
///
/// Management has hosts and ports of its own at Apple; here it answers at the same one. Channels are the world's, not a
/// connection's; the order of the checks is our own.
///
/// Source: https://developer.apple.com/documentation/usernotifications/sending-channel-management-requests-to-apns
package final class APNsChannels: Sendable {
    /// Channels of an app in one environment at most.
    package static let perAppMax = 10_000
    /// Bytes of a broadcast's body at most.
    package static let payloadBytesMax = 5_120

    private struct Channel: Sendable {
        let id: String
        /// 0: nothing is kept; 1: the latest message is.
        let policy: Int64
    }

    /// By bundle id, in the order of their making.
    private let channels = Mutex<[String: [Channel]]>([:])

    /// No channels.
    package init() {}

    /// Whether requests to that path are these channels' business.
    package static func owns(_ path: String) -> Bool { path.hasPrefix("/1/apps/") || path.hasPrefix("/4/broadcasts/") }

    /// Whether requests to that path make, read, list or delete channels, and are no messages.
    static func isManagement(_ path: String) -> Bool { path.hasPrefix("/1/apps/") }

    /// Forgets all.
    func reset() { self.channels.withLock { $0 = [:] } }

    /// The channels of an app, in the order of their making.
    package func ids(of bundleID: String) -> [String] { self.channels.withLock { $0[bundleID, default: []].map(\.id) } }

    /// What Apple says to a request, and the address that the ledger knows a broadcast by, "/channels/" and the channel's id;
    /// nil: it is about channels, and no message.
    ///
    /// - Parameter number: makes a channel's id, and the id of a request that brings none.
    func judge(
        _ request: ProviderRequest,
        judge: APNsJudge,
        connection: inout APNsConnection,
        now: UnixMilliseconds,
        number: UInt64,
    ) -> (answer: ProviderAnswer, address: String?) {
        var answer: ProviderAnswer
        do throws(APNsRefusal) {
            if let name = request.duplicateHeader { throw APNsRefusal(.duplicateHeaders, "\(name) stands twice") }
            let proof = try connection.authorize(
                request.first("authorization"),
                keys: judge.keys,
                environment: judge.environment,
                now: now,
            )
            let place = try Place(request.path)
            try Self.check(place.bundleID, judge: judge, proof: proof)
            answer =
                switch place.kind {
                case .broadcast: try self.publish(request, place.bundleID, now: now)
                case .channels: try self.manage(request, place.bundleID, number: number)
                case .allChannels: try self.list(request, place.bundleID)
                }
        } catch {
            answer = error.rejection.answer(id: nil).explained(error.sentence)
        }
        answer.headers.append(ProviderHeader("apns-request-id", Self.requestID(of: request, number: number)))
        return (answer, Self.isManagement(request.path) ? nil : Self.address(of: request))
    }

    /// The id that an answer carries: the request's own, or one made of its number.
    static func requestID(of request: ProviderRequest, number: UInt64) -> String {
        let generated = UUIDText.text((number & ~0xf000) | 0x8000, number | 0x8000_0000_0000_0000)
        return request.first("apns-request-id").flatMap { APNsJudge.isCanonicalUUID($0) ? $0 : nil } ?? generated
    }

    /// The address that the ledger knows a broadcast by.
    static func address(of request: ProviderRequest) -> String {
        "/channels/\(request.first("apns-channel-id") ?? "")"
    }

    /// What a path is about.
    private struct Place {
        enum Kind {
            case broadcast
            case channels
            case allChannels
        }

        let kind: Kind
        let bundleID: String

        init(_ path: String) throws(APNsRefusal) {
            let parts = path.split(separator: "/", omittingEmptySubsequences: false).dropFirst().map(String.init)
            switch (parts.count, parts.first, parts.last) {
            case (4, "4", _) where parts[1] == "broadcasts" && parts[2] == "apps": self.kind = .broadcast
            case (4, "1", "channels") where parts[1] == "apps": self.kind = .channels
            case (4, "1", "all-channels") where parts[1] == "apps": self.kind = .allChannels
            default: throw APNsRefusal(.badPath, "no path of channels or broadcasts")
            }
            self.bundleID = self.kind == .broadcast ? parts[3] : parts[2]
        }
    }

    private static func check(_ bundleID: String, judge: APNsJudge, proof: APNsProof) throws(APNsRefusal) {
        guard !bundleID.contains(".push-type.") else {
            throw APNsRefusal(.topicDisallowed, "the bundle id stands in the path without a push type's suffix")
        }
        guard judge.bundleIDs.isEmpty || judge.bundleIDs.contains(bundleID), proof.serves(bundleID, of: bundleID)
        else {
            throw APNsRefusal(.topicMismatch, "the key is not for \(bundleID)")
        }
    }

    // MARK: Management

    private func manage(
        _ request: ProviderRequest,
        _ bundleID: String,
        number: UInt64,
    ) throws(APNsRefusal) -> ProviderAnswer {
        switch request.method {
        case "POST":
            let policy = try Self.policy(request.body)
            let words = [number, number &* 0x9e37_79b9_7f4a_7c15 | 1]
            let bytes = words.flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> ($0 * 8)) } }
            let id = Base64URL.encode(bytes).replacing("-", with: "+").replacing("_", with: "/") + "=="
            let isMade = self.channels.withLock { channels in
                guard channels[bundleID, default: []].count < Self.perAppMax else { return false }
                channels[bundleID, default: []].append(Channel(id: id, policy: policy))
                return true
            }
            guard isMade else { throw APNsRefusal(.cannotCreateChannel, "\(Self.perAppMax) channels are all") }
            return ProviderAnswer(status: 201, headers: [ProviderHeader("apns-channel-id", id)])
        case "GET":
            let channel = try self.channel(of: request, bundleID)
            return Self.json(["message-storage-policy": .integer(channel.policy), "push-type": "LiveActivity"])
        case "DELETE":
            let channel = try self.channel(of: request, bundleID)
            self.channels.withLock { $0[bundleID]?.removeAll { $0.id == channel.id } }
            return ProviderAnswer(status: 204)
        default: throw APNsRefusal(.methodNotAllowed, "\(request.method) is not POST, GET or DELETE")
        }
    }

    private func list(_ request: ProviderRequest, _ bundleID: String) throws(APNsRefusal) -> ProviderAnswer {
        guard request.method == "GET" else { throw APNsRefusal(.methodNotAllowed, "\(request.method) is not GET") }
        let ids = self.ids(of: bundleID)
        return Self.json(["channels": .array(ids.map { .string($0) })])
    }

    private static func json(_ object: JSONObject) -> ProviderAnswer {
        ProviderAnswer(
            status: 200,
            headers: [ProviderHeader("content-type", "application/json")],
            body: JSONValue.object(object).bytes,
        )
    }

    private static func policy(_ body: [UInt8]) throws(APNsRefusal) -> Int64 {
        let order = try? JSONValue(parsing: body, bytesMax: SimulatorLimits.requestBodyBytesMax)
        guard let order, order.object != nil else { throw APNsRefusal(.badRequestPayload, "the body is not an object") }
        guard let type = order["push-type"] else { throw APNsRefusal(.missingPushType, "no push-type") }
        guard type.string == "LiveActivity" else { throw APNsRefusal(.invalidPushType, "push-type is LiveActivity") }
        guard let policy = order["message-storage-policy"]?.int64, (0...1).contains(policy) else {
            throw APNsRefusal(.badRequestPayload, "message-storage-policy is 0 or 1")
        }
        return policy
    }

    private func channel(of request: ProviderRequest, _ bundleID: String) throws(APNsRefusal) -> Channel {
        guard let id = request.first("apns-channel-id") else {
            throw APNsRefusal(.missingChannelID, "no apns-channel-id")
        }
        let text = id.replacing("+", with: "-").replacing("/", with: "_").prefix { $0 != "=" }
        guard Base64URL.decode(text) != nil else { throw APNsRefusal(.badChannelID, "apns-channel-id is not base64") }
        let channel = self.channels.withLock { $0[bundleID]?.first { $0.id == id } }
        guard let channel else { throw APNsRefusal(.channelNotRegistered, "there is no such channel") }
        return channel
    }

    // MARK: Broadcasts

    private func publish(
        _ request: ProviderRequest,
        _ bundleID: String,
        now: UnixMilliseconds,
    ) throws(APNsRefusal) -> ProviderAnswer {
        guard request.method == "POST" else { throw APNsRefusal(.methodNotAllowed, "\(request.method) is not POST") }
        guard let type = request.first("apns-push-type") else {
            throw APNsRefusal(.missingPushType, "no apns-push-type")
        }
        guard type.lowercased() == APNsPushType.liveactivity.rawValue else {
            throw APNsRefusal(.invalidPushType, "only liveactivity is broadcast")
        }
        let channel = try self.channel(of: request, bundleID)
        guard ["10", "5", "1"].contains(request.first("apns-priority") ?? "10") else {
            throw APNsRefusal(.badPriority, "apns-priority is 10, 5 or 1")
        }
        guard let expiration = request.first("apns-expiration").flatMap({ Int64($0) }), expiration >= 0 else {
            throw APNsRefusal(.badExpirationDate, "apns-expiration is a time in seconds, and always there")
        }
        guard channel.policy == 1 || expiration == 0 else {
            throw APNsRefusal(.badExpirationDate, "the channel keeps nothing: apns-expiration is 0")
        }
        try APNsPayloadRules.check(request.body, type: .liveactivity, bytesMax: Self.payloadBytesMax)
        let payload = try? JSONValue(parsing: request.body, bytesMax: Self.payloadBytesMax)
        guard payload?["aps"]?["event"]?.string != "start" else {
            throw APNsRefusal(.badRequestPayload, "a broadcast cannot start a Live Activity")
        }
        return ProviderAnswer(status: 200)
    }
}
