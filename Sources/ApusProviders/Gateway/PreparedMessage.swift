package import ApusHTTP2
package import ApusMessages
internal import Synchronization

/// Holds one rendered variant as an HTTP/2 request: everything that is the same for every device.
package final class PreparedMessage: Sendable {
    /// The request without token, id and credential.
    package let template: RequestTemplate
    /// The maximum bytes of the body, without the token.
    package let payloadBytes: Int
    /// True when each device's badge must be counted and passed on.
    package let needsBadge: Bool
    /// True when each request carries an id of its own.
    let carriesID: Bool
    /// The provider's own form of a message whose requests differ in all their parts; nil when the template is the request.
    let addressed: (any Sendable)?
    /// True when the message goes to recipients with addresses and keys of their own.
    package var needsKeys: Bool { self.addressed != nil }

    /// Encodes what all requests have in common.
    ///
    /// - Parameters:
    ///   - authority: the host that requests are for, with a port other than 443.
    ///   - path: the path, with a place for the token or without.
    ///   - headers: the headers in the order in which they are sent.
    ///   - carriesID: true when each request carries an id of its own.
    ///   - known: the headers of the last message of the same kind.
    package init(
        authority: String,
        path: RequestTemplate.Path,
        headers: [(name: String, value: String)],
        body: RenderedBody,
        carriesID: Bool = false,
        sharing known: CheckedHeaders = CheckedHeaders(),
    ) throws(Problem) {
        do throws(HTTP2Error) {
            let fields = try known.fields(headers)
            self.template = try RequestTemplate(authority: authority, path: path, headers: fields, body: body.template)
        } catch {
            throw Problem(.invalid, "notification", "cannot be written as a request: \(error)")
        }
        self.carriesID = carriesID
        self.addressed = nil
        self.payloadBytes = body.bytesMax
        self.needsBadge = body.needsBadge
    }

    /// Keeps a message from which ``RecipientAddressing`` makes the requests.
    ///
    /// - Parameter body: the content before it is made for one recipient.
    package init(addressed message: any Sendable, body: RenderedBody) {
        self.template = Self.noTemplate
        self.carriesID = false
        self.addressed = message
        self.payloadBytes = body.bytesMax
        self.needsBadge = body.needsBadge
    }

    /// Stands where nothing is the same for every device.
    private static let noTemplate: RequestTemplate = {
        do {
            return try RequestTemplate(authority: "invalid", path: .constant("/"), headers: [], body: .none)
        } catch {
            preconditionFailure("an empty request is valid: \(error)")
        }
    }()
}

/// Keeps the checked headers of the last message of a route: most of them, or all, are those of the next message too.
package final class CheckedHeaders: Sendable {
    private struct KnownHeaders {
        var values: [String] = []
        var fields: [HeaderField] = []

        func has(_ header: (name: String, value: String), at index: Int) -> Bool {
            index < self.values.count && self.values[index] == header.value && self.fields[index].name == header.name
        }
    }

    private let last = Mutex(KnownHeaders())

    /// Knows no header yet.
    package init() {}

    /// Returns the headers, checked, in the same order.
    func fields(_ headers: [(name: String, value: String)]) throws(HTTP2Error) -> [HeaderField] {
        let last = self.last.withLock { $0 }
        if headers.count == last.values.count, headers.indices.allSatisfy({ last.has(headers[$0], at: $0) }) {
            return last.fields
        }
        var next = KnownHeaders()
        next.values = headers.map(\.value)
        next.fields.reserveCapacity(headers.count)
        for (index, header) in headers.enumerated() {
            next.fields.append(
                last.has(header, at: index) ? last.fields[index] : try HeaderField(header.name, header.value)
            )
        }
        self.last.withLock { $0 = next }
        return next.fields
    }
}

extension RenderedBody {
    /// The body in the form from which requests are made.
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
