package import ApusCore
package import ApusHTTP2
package import ApusProviders

/// A question to Apple's channel management, and how its answer is read. Pure: bytes in, words out.
///
/// The channel's id stands in a header, as Apple's page says; libraries that put it into the path follow an older one.
///
/// Source: https://developer.apple.com/documentation/usernotifications/sending-channel-management-requests-to-apns
package enum APNsChannelQuestion: Hashable, Sendable {
    /// Makes a channel; how it stores cannot be changed later.
    case create(APNsChannelStorage)
    /// How a channel stores.
    case read(APNsChannelID)
    /// All channels of the app in this environment.
    case list
    /// Ends a channel; there is no way back.
    case delete(APNsChannelID)

    private var method: String {
        switch self {
        case .create: "POST"
        case .read, .list: "GET"
        case .delete: "DELETE"
        }
    }

    /// The request.
    ///
    /// - Parameters:
    ///   - bundleID: the app's, without a push type's suffix.
    ///   - authority: host and port.
    ///   - authorization: "bearer" and a provider token; nil: the connection showed a certificate, Apple takes either here.
    package func request(
        bundleID: String,
        authority: String,
        authorization: HeaderValue?,
    ) throws(HTTP2Error) -> PlainRequest {
        var headers: [HeaderField] = []
        if let authorization { headers.append(try HeaderField("authorization", authorization.text)) }
        var body: [UInt8] = []
        switch self {
        case .create(let storage):
            headers.append(try HeaderField("content-type", "application/json"))
            body =
                JSONValue.object([
                    "message-storage-policy": .integer(storage.rawValue), "push-type": "LiveActivity",
                ]).bytes
        case .read(let id), .delete(let id): headers.append(try HeaderField("apns-channel-id", id.text))
        case .list: break
        }
        return try PlainRequest(
            method: self.method,
            authority: authority,
            path: "/1/apps/\(bundleID)/\(self == .list ? "all-channels" : "channels")",
            headers: headers,
            body: body,
        )
    }

    /// What Apple said.
    package func reply(_ answer: PlainAnswer) throws(APNsChannelRefusal) -> APNsChannelReply {
        let json = try? JSONValue(parsing: answer.body, bytesMax: APNsChannelReply.bodyBytesMax)
        switch (self, answer.status) {
        case (.create, 201):
            let text = answer.headers[.apnsChannelID] ?? ""
            guard let id = try? APNsChannelID(text) else {
                throw APNsChannelRefusal(status: 201, word: "Apple named no channel")
            }
            return .created(id)
        case (.read, 200):
            guard let storage = json?["message-storage-policy"]?.int64.flatMap({ APNsChannelStorage(rawValue: $0) })
            else { throw APNsChannelRefusal(status: 200, word: "a storage policy that is not known") }
            return .storage(storage)
        case (.list, 200):
            guard let list = json?["channels"]?.array else {
                throw APNsChannelRefusal(status: 200, word: "no list of channels")
            }
            return .channels(list.compactMap { $0.string.flatMap { try? APNsChannelID($0) } })
        case (.delete, 204): return .deleted
        default:
            let word = json?["reason"]?.string.map { ProviderText.cleaned($0) }
            throw APNsChannelRefusal(status: answer.status, word: word ?? "no reason")
        }
    }
}

/// What Apple's channel management said to a question of the same name.
package enum APNsChannelReply: Hashable, Sendable {
    /// The new channel.
    case created(APNsChannelID)
    /// How the channel stores.
    case storage(APNsChannelStorage)
    /// All channels.
    case channels([APNsChannelID])
    /// The channel is gone.
    case deleted

    /// Bytes of a body that are read: 10,000 ids of some forty bytes.
    package static let bodyBytesMax = 1_024 * 1_024
}

/// Apple's no.
package struct APNsChannelRefusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// The HTTP status.
    package let status: Int
    /// Apple's word, such as `ChannelNotRegistered`.
    package let word: String

    /// A refusal.
    package init(status: Int, word: String) {
        self.status = status
        self.word = word
    }

    package var description: String { "Apple answers \(self.status): \(self.word)" }
}

/// Where channels are managed: hosts and ports of their own.
///
/// Source: https://developer.apple.com/documentation/usernotifications/sending-channel-management-requests-to-apns
package enum APNsChannelHost {
    /// Apple's address of an environment.
    package static func address(of environment: ProviderEnvironment) -> WebAddress {
        switch environment {
        case .production: WebAddress(host: "api-manage-broadcast.push.apple.com", port: 2_196)
        case .sandbox: WebAddress(host: "api-manage-broadcast.sandbox.push.apple.com", port: 2_195)
        }
    }
}
