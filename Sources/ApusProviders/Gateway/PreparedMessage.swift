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
    /// Whether each request carries an id of its own.
    let carriesID: Bool

    /// Writes down what requests have in common.
    ///
    /// - Parameters:
    ///   - authority: the host that requests are for, with a port other than 443.
    ///   - path: with a place for the token, or none.
    ///   - headers: in the order in which they are sent.
    ///   - carriesID: whether each request carries an id of its own.
    package init(
        authority: String,
        path: RequestTemplate.Path,
        headers: [(name: String, value: String)],
        body: RenderedBody,
        carriesID: Bool = false,
    ) throws(Problem) {
        var fields: [HeaderField] = []
        do throws(HTTP2Error) {
            for header in headers { fields.append(try HeaderField(header.name, header.value)) }
            self.template = try RequestTemplate(authority: authority, path: path, headers: fields, body: body.template)
        } catch {
            throw Problem(.invalid, "notification", "cannot be written as a request: \(error)")
        }
        self.carriesID = carriesID
        self.payloadBytes = body.bytesMax
        self.needsBadge = body.needsBadge
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
