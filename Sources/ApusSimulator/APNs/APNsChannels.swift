internal import ApusCore
internal import Synchronization

/// Simulates Apple's broadcast channels: creates, reads, lists and deletes them like its management interface, and publishes to them.
///
/// Apple's management has hosts and ports of its own; here it is served at the same port. Channels belong to the
/// simulator's state, not to a connection; the order of the checks is our own.
///
/// Source: https://developer.apple.com/documentation/usernotifications/sending-channel-management-requests-to-apns
package final class APNsChannels: Sendable {
    /// The maximum number of channels of an app in one environment.
    package static let perAppMax = 10_000
    /// The maximum bytes of a broadcast's body.
    package static let payloadBytesMax = 5_120

    private struct Channel: Sendable {
        let id: String
        /// The storage policy: 0 when no message is stored, 1 when the latest one is.
        let policy: Int64
    }

    /// The channels by bundle id, in the order of their creation.
    private let channels = Mutex<[String: [Channel]]>([:])

    /// Creates a store without channels.
    package init() {}

    /// Returns true when a path is for channels or broadcasts.
    package static func owns(_ path: String) -> Bool { path.hasPrefix("/1/apps/") || path.hasPrefix("/4/broadcasts/") }

    /// Returns true when a path creates, reads, lists or deletes channels, and carries no message.
    static func isManagement(_ path: String) -> Bool { path.hasPrefix("/1/apps/") }

    /// Deletes all channels.
    func reset() { self.channels.withLock { $0 = [:] } }

    /// Returns the ids of an app's channels, in the order of their creation.
    package func ids(of bundleID: String) -> [String] { self.channels.withLock { $0[bundleID, default: []].map(\.id) } }

    /// Answers a request.
    ///
    /// - Parameter number: the number from which a channel's id, and the id of a request without one, are derived.
    func validate(
        _ request: ProviderRequest,
        validator: APNsValidator,
        connection: inout APNsConnection,
        now: UnixMilliseconds,
        number: UInt64,
    ) -> ProviderAnswer {
        var answer: ProviderAnswer
        do throws(APNsRefusal) {
            if let name = request.duplicateHeader { throw APNsRefusal(.duplicateHeaders, "\(name) is given twice") }
            let credential = try connection.authorize(
                request.first("authorization"),
                keys: validator.keys,
                environment: validator.environment,
                now: now,
            )
            let place = try Place(request.path)
            try Self.check(place.bundleID, validator: validator, credential: credential)
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
        return answer
    }

    /// Returns the id that an answer carries: the request's own, or one derived from its number.
    static func requestID(of request: ProviderRequest, number: UInt64) -> String {
        request.first("apns-request-id").flatMap { APNsValidator.isCanonicalUUID($0) ? $0 : nil }
            ?? UUIDText.unique(number)
    }

    /// The meaning of a path.
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
            default: throw APNsRefusal(.badPath, "not a path of channels or broadcasts")
            }
            self.bundleID = self.kind == .broadcast ? parts[3] : parts[2]
        }
    }

    private static func check(
        _ bundleID: String,
        validator: APNsValidator,
        credential: APNsCredential
    ) throws(APNsRefusal) {
        guard !bundleID.contains(".push-type.") else {
            throw APNsRefusal(.topicDisallowed, "the bundle id stands in the path without a push type's suffix")
        }
        guard validator.bundleIDs.isEmpty || validator.bundleIDs.contains(bundleID),
            credential.serves(bundleID, of: bundleID)
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
            guard isMade else { throw APNsRefusal(.cannotCreateChannel, "\(Self.perAppMax) channels are the maximum") }
            return ProviderAnswer(status: 201, headers: [ProviderHeader("apns-channel-id", id)])
        case "GET":
            let channel = try self.channel(of: request, bundleID)
            return ProviderAnswer(
                status: 200,
                json: ["message-storage-policy": .integer(channel.policy), "push-type": "LiveActivity"]
            )
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
        return ProviderAnswer(status: 200, json: ["channels": .array(ids.map { .string($0) })])
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
            throw APNsRefusal(.badExpirationDate, "the channel stores nothing: apns-expiration must be 0")
        }
        try APNsPayloadRules.check(request.body, type: .liveactivity, bytesMax: Self.payloadBytesMax)
        let payload = try? JSONValue(parsing: request.body, bytesMax: Self.payloadBytesMax)
        guard payload?["aps"]?["event"]?.string != "start" else {
            throw APNsRefusal(.badRequestPayload, "a broadcast cannot start a Live Activity")
        }
        return ProviderAnswer(status: 200)
    }
}
