package import ApusCore
package import ApusHTTP2
package import ApusProviders

/// Builds requests to Apple's channel management and parses their answers. Pure: bytes in, values out.
///
/// The channel's id is a header, as Apple's page says; libraries that put it into the path follow an older page.
///
/// Source: https://developer.apple.com/documentation/usernotifications/sending-channel-management-requests-to-apns
package enum APNsChannelRequest: Hashable, Sendable {
    /// Creates a channel; its storage policy cannot be changed later.
    case create(APNsChannelStorage)
    /// Reads a channel's storage policy.
    case read(APNsChannelID)
    /// Lists all channels of the app in this environment.
    case list
    /// Deletes a channel, irrevocably.
    case delete(APNsChannelID)

    private var method: String {
        switch self {
        case .create: "POST"
        case .read, .list: "GET"
        case .delete: "DELETE"
        }
    }

    /// Builds the request.
    ///
    /// - Parameters:
    ///   - bundleID: the app's bundle id, without a push type's suffix.
    ///   - authority: the host and port.
    ///   - authorization: "bearer" and a provider token; nil when the connection presents a certificate: Apple accepts either here.
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

    /// Parses Apple's answer.
    package func reply(_ answer: PlainAnswer) throws(APNsChannelRefusal) -> APNsChannelResponse {
        let json = try? JSONValue(parsing: answer.body, bytesMax: APNsChannelResponse.bodyBytesMax)
        switch (self, answer.status) {
        case (.create, 201):
            let text = answer.headers[.apnsChannelID] ?? ""
            guard let id = try? APNsChannelID(text) else {
                throw APNsChannelRefusal(status: 201, word: "the answer holds no channel id")
            }
            return .created(id)
        case (.read, 200):
            guard let storage = json?["message-storage-policy"]?.int64.flatMap({ APNsChannelStorage(rawValue: $0) })
            else { throw APNsChannelRefusal(status: 200, word: "unknown storage policy") }
            return .storage(storage)
        case (.list, 200):
            guard let list = json?["channels"]?.array else {
                throw APNsChannelRefusal(status: 200, word: "the answer holds no list of channels")
            }
            return .channels(list.compactMap { $0.string.flatMap { try? APNsChannelID($0) } })
        case (.delete, 204): return .deleted
        default:
            let word = json?["reason"]?.string.map { ProviderText.cleaned($0) }
            throw APNsChannelRefusal(status: answer.status, word: word ?? "no reason")
        }
    }
}

/// Apple's answers to the requests of the same names.
package enum APNsChannelResponse: Hashable, Sendable {
    /// The id of the new channel.
    case created(APNsChannelID)
    /// The channel's storage policy.
    case storage(APNsChannelStorage)
    /// The ids of all channels.
    case channels([APNsChannelID])
    /// The channel was deleted.
    case deleted

    /// The maximum bytes of a body that are read: 10,000 ids of some forty bytes.
    package static let bodyBytesMax = 1_024 * 1_024
}

/// A refusal by Apple.
package struct APNsChannelRefusal: Error, Hashable, Sendable, CustomStringConvertible {
    /// The HTTP status.
    package let status: Int
    /// Apple's reason, such as `ChannelNotRegistered`.
    package let word: String

    /// Creates a refusal.
    package init(status: Int, word: String) {
        self.status = status
        self.word = word
    }

    package var description: String { "Apple answers \(self.status): \(self.word)" }
}

/// The addresses of channel management: hosts and ports of its own.
///
/// Source: https://developer.apple.com/documentation/usernotifications/sending-channel-management-requests-to-apns
package enum APNsChannelHost {
    /// Returns Apple's address for an environment.
    package static func address(of environment: ProviderEnvironment) -> WebAddress {
        switch environment {
        case .production: WebAddress(host: "api-manage-broadcast.push.apple.com", port: 2_196)
        case .sandbox: WebAddress(host: "api-manage-broadcast.sandbox.push.apple.com", port: 2_195)
        }
    }
}
