package import ApusCore

/// Validates requests like Apple, and more strictly where Apple would silently drop a notification.
///
/// Pure: the time, the behaviors of tokens and the connection's state are arguments. The order of the checks is the simulator's own:
/// Apple documents none, and no client may rely on one.
///
/// Source: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns,
/// https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns
package struct APNsValidator: Sendable {
    /// The registered keys.
    package var keys: [APNsKey]
    /// The bundle ids that may be pushed to; empty for any.
    package var bundleIDs: Set<String>
    /// The environment that is simulated.
    package var environment: ProviderEnvironment

    /// Creates a validator for an environment.
    package init(keys: [APNsKey], bundleIDs: Set<String>, environment: ProviderEnvironment = .production) {
        self.keys = keys
        self.bundleIDs = bundleIDs
        self.environment = environment
    }

    /// Answers a request.
    ///
    /// - Parameters:
    ///   - generatedID: the `apns-id` of a request without one, and the sandbox's `apns-unique-id`.
    package func validate(
        _ request: ProviderRequest,
        connection: inout APNsConnection,
        behaviors: TokenBehaviors,
        now: UnixMilliseconds,
        generatedID: String,
    ) -> ProviderAnswer {
        let asked = request.first("apns-id")
        let id = asked.flatMap { Self.isCanonicalUUID($0) ? $0 : nil } ?? generatedID
        do throws(APNsRefusal) {
            try self.check(request, connection: &connection, behaviors: behaviors, now: now)
        } catch {
            return error.rejection.answer(id: id, timestamp: error.timestamp).explained(error.sentence)
        }
        var headers = [ProviderHeader("apns-id", id)]
        if self.environment == .sandbox { headers.append(ProviderHeader("apns-unique-id", generatedID)) }
        return ProviderAnswer(status: 200, headers: headers)
    }

    private func check(
        _ request: ProviderRequest,
        connection: inout APNsConnection,
        behaviors: TokenBehaviors,
        now: UnixMilliseconds,
    ) throws(APNsRefusal) {
        if let name = request.duplicateHeader { throw APNsRefusal(.duplicateHeaders, "\(name) is given twice") }
        let token = try Self.token(of: request)
        if let id = request.first("apns-id"), !Self.isCanonicalUUID(id) {
            throw APNsRefusal(.badMessageID, "apns-id is not a UUID in lower case, 8-4-4-4-12")
        }
        let credential = try connection.authorize(
            request.first("authorization"),
            keys: self.keys,
            environment: self.environment,
            now: now,
        )
        let type = try Self.pushType(of: request)
        try self.checkTopic(request.first("apns-topic"), type: type, credential: credential)
        try Self.checkDelivery(request, type: type)
        guard request.first("content-encoding") == nil else {
            throw APNsRefusal(.payloadEmpty, "the body must not be compressed")
        }
        try APNsPayloadRules.check(request.body, type: type)
        if let refusal = behaviors.behavior(of: TokenDigest(token.span), now: now).flatMap(APNsRefusal.init) {
            throw refusal
        }
    }

    /// Reads the token's bytes from the path.
    private static func token(of request: ProviderRequest) throws(APNsRefusal) -> [UInt8] {
        let prefix = "/3/device"
        guard request.path.hasPrefix(prefix) else { throw APNsRefusal(.badPath, "not /3/device/ and a token") }
        let rest = request.path.dropFirst(prefix.count)
        guard rest.isEmpty || rest.hasPrefix("/") else {
            throw APNsRefusal(.badPath, "not /3/device/ and a token")
        }
        guard request.method == "POST" else {
            throw APNsRefusal(.methodNotAllowed, "\(request.method) is not POST")
        }
        let text = rest.dropFirst()
        guard !text.isEmpty else { throw APNsRefusal(.missingDeviceToken, "no token in the path") }
        guard let token = Hexadecimal.decode(text), token.count <= Limits.apnsTokenBytesMax else {
            throw APNsRefusal(.badDeviceToken, "the token is not an even number of hexadecimal digits, or too long")
        }
        return token
    }

    private static func pushType(of request: ProviderRequest) throws(APNsRefusal) -> APNsPushType {
        guard let text = request.first("apns-push-type") else {
            throw APNsRefusal(.invalidPushType, "no apns-push-type: Apple may drop such notifications silently")
        }
        guard let type = APNsPushType(rawValue: text) else {
            throw APNsRefusal(.invalidPushType, "unknown apns-push-type")
        }
        return type
    }

    private func checkTopic(_ said: String?, type: APNsPushType, credential: APNsCredential) throws(APNsRefusal) {
        guard let topic = said ?? credential.defaultTopic, !topic.isEmpty else {
            throw APNsRefusal(.missingTopic, "no apns-topic")
        }
        let isPlain = topic.utf8.allSatisfy { byte in
            switch byte {
            case 0x61...0x7a, 0x41...0x5a, 0x30...0x39, 0x2d, 0x2e: true
            default: false
            }
        }
        guard isPlain else { throw APNsRefusal(.badTopic, "apns-topic is not a bundle id") }
        guard topic.hasSuffix(type.topicSuffix) else {
            throw APNsRefusal(.badTopic, "push type \(type.rawValue) needs a topic that ends in \(type.topicSuffix)")
        }
        let bundleID = String(topic.dropLast(type.topicSuffix.count))
        guard type == .mdm || self.bundleIDs.isEmpty || self.bundleIDs.contains(bundleID) else {
            throw APNsRefusal(.topicDisallowed, "\(bundleID) is not one of the team's bundle ids")
        }
        guard credential.serves(topic, of: bundleID) else {
            throw APNsRefusal(.topicDisallowed, "the key or certificate is not for \(topic)")
        }
    }

    /// Checks priority, expiration and collapse id.
    private static func checkDelivery(_ request: ProviderRequest, type: APNsPushType) throws(APNsRefusal) {
        // Apple uses priority 10 for a request without the header.
        let priority = request.first("apns-priority") ?? "10"
        guard ["10", "5", "1"].contains(priority) else {
            throw APNsRefusal(.badPriority, "apns-priority is 10, 5 or 1")
        }
        guard type != .background || priority == "5" else {
            throw APNsRefusal(.badPriority, "push type background needs priority 5")
        }
        guard type != .liveactivity || priority != "1" else {
            throw APNsRefusal(.badPriority, "push type liveactivity takes priority 5 or 10")
        }
        if let expiration = request.first("apns-expiration") {
            guard let seconds = Int64(expiration), seconds >= 0, expiration.utf8.allSatisfy({ $0 != 0x2b }) else {
                throw APNsRefusal(.badExpirationDate, "apns-expiration is not a time in seconds")
            }
        }
        if let id = request.first("apns-collapse-id"), !(1...Self.collapseIDBytesMax).contains(id.utf8.count) {
            throw APNsRefusal(.badCollapseID, "apns-collapse-id has \(id.utf8.count) bytes, 1 to 64 are allowed")
        }
    }

    /// The maximum bytes of a collapse id.
    static let collapseIDBytesMax = 64

    /// Returns true when a text is a UUID of 8-4-4-4-12 digits in lower case.
    package static func isCanonicalUUID(_ text: String) -> Bool {
        let bytes = Array(text.utf8)
        guard bytes.count == 36 else { return false }
        for (index, byte) in bytes.enumerated() {
            if [8, 13, 18, 23].contains(index) {
                guard byte == 0x2d else { return false }
            } else {
                guard (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte) else { return false }
            }
        }
        return true
    }
}
