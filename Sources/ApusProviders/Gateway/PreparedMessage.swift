package import ApusHTTP2
package import ApusMessages

/// One rendered variant, ready for the wire: everything of a request that is the same for every device.
package final class PreparedMessage: Sendable {
    /// What goes out, but for token, id and credential.
    package let template: RequestTemplate
    /// Bytes of the body at most, without the token.
    package let payloadBytes: Int
    /// Whether each device's badge must be counted and given.
    package let needsBadge: Bool
    /// Whether each request carries an id of its own, as `apns-id`: only what Apple delivers to a device does.
    let carriesID: Bool

    private init(template: RequestTemplate, body: RenderedBody, carriesID: Bool = false) {
        self.template = template
        self.carriesID = carriesID
        self.payloadBytes = body.bytesMax
        self.needsBadge = body.needsBadge
    }

    /// For APNs: the path takes the token's raw bytes and writes them in hexadecimal.
    ///
    /// - Parameter authority: the host that requests are for, with a port other than 443.
    package static func apns(
        _ message: RenderedAPNsMessage,
        authority: String,
    ) throws(Problem) -> PreparedMessage {
        let template = try Self.template(
            authority: authority,
            path: .token(prefix: RenderedAPNsMessage.pathPrefix, form: .hexadecimal),
            headers: message.headers,
            body: message.body.template,
        )
        return PreparedMessage(template: template, body: message.body, carriesID: true)
    }

    /// For a broadcast channel at APNs: no token anywhere.
    ///
    /// - Parameter authority: the host that requests are for, with a port other than 443.
    package static func apns(
        _ broadcast: RenderedAPNsBroadcast,
        authority: String,
    ) throws(Problem) -> PreparedMessage {
        let template = try Self.template(
            authority: authority,
            path: .constant(broadcast.path),
            headers: broadcast.headers,
            body: broadcast.body.template,
        )
        return PreparedMessage(template: template, body: broadcast.body)
    }

    /// For FCM: the token stands in the body as text; an audience that FCM holds has none.
    ///
    /// - Parameter authority: the host that requests are for, with a port other than 443.
    package static func fcm(
        _ message: RenderedFCMMessage,
        project: String,
        authority: String,
    ) throws(Problem) -> PreparedMessage {
        let template = try Self.template(
            authority: authority,
            path: .constant("/v1/projects/\(project)/messages:send"),
            headers: RenderedFCMMessage.headers,
            body: message.body.template,
        )
        return PreparedMessage(template: template, body: message.body)
    }

    private static func template(
        authority: String,
        path: RequestTemplate.Path,
        headers: [(name: String, value: String)],
        body: RequestTemplate.Body,
    ) throws(Problem) -> RequestTemplate {
        var fields: [HeaderField] = []
        do throws(HTTP2Error) {
            for header in headers {
                fields.append(try Self.field(header.name, header.value))
            }
            return try RequestTemplate(authority: authority, path: path, headers: fields, body: body)
        } catch {
            throw Problem(.invalid, "notification", "cannot be written as a request: \(error)")
        }
    }

    private static func field(_ name: String, _ value: String) throws(HTTP2Error) -> HeaderField {
        try HeaderField(name, value)
    }
}

extension RenderedBody {
    /// As requests are made from it.
    fileprivate var template: RequestTemplate.Body {
        .pieces(
            self.segments.map { segment in
                switch segment {
                case .bytes(let bytes): .bytes(bytes)
                case .token: .token
                case .badge: .number
                }
            }
        )
    }
}
