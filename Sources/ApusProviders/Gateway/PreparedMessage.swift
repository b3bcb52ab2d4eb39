package import ApusHTTP2
package import ApusMessages

/// One rendered variant, ready for the wire: everything of a request that is the same for every device.
package final class PreparedMessage: Sendable {
    /// What goes out, but for token, id and credential.
    package let template: RequestTemplate
    /// Bytes of the body, without the token.
    package let payloadBytes: Int

    private init(template: RequestTemplate, payloadBytes: Int) {
        self.template = template
        self.payloadBytes = payloadBytes
    }

    /// For APNs: the path takes the token's raw bytes and writes them in hexadecimal.
    ///
    /// - Parameter authority: the host that requests are for, with a port other than 443.
    package static func apns(
        _ message: RenderedAPNsMessage,
        authority: String,
    ) throws(Problem) -> PreparedMessage {
        guard let body = message.body.constant else { throw Self.countedBadge }
        let template = try Self.template(
            authority: authority,
            path: .token(prefix: RenderedAPNsMessage.pathPrefix, form: .hexadecimal),
            headers: message.headers,
            body: .shared(body),
        )
        return PreparedMessage(template: template, payloadBytes: body.count)
    }

    /// For FCM: the token stands in the body as text; an audience that FCM holds has none.
    ///
    /// - Parameter authority: the host that requests are for, with a port other than 443.
    package static func fcm(
        _ message: RenderedFCMMessage,
        project: String,
        authority: String,
    ) throws(Problem) -> PreparedMessage {
        let body: RequestTemplate.Body
        if let (prefix, suffix) = message.body.aroundToken {
            body = .token(prefix: prefix, suffix: suffix)
        } else if let bytes = message.body.constant {
            body = .shared(bytes)
        } else {
            throw Self.countedBadge
        }
        let template = try Self.template(
            authority: authority,
            path: .constant("/v1/projects/\(project)/messages:send"),
            headers: RenderedFCMMessage.headers,
            body: body,
        )
        return PreparedMessage(template: template, payloadBytes: message.body.bytesMax)
    }

    private static var countedBadge: Problem {
        Problem(.unsupported, "notification.badge_increment", "a badge that is counted per device cannot be sent")
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
