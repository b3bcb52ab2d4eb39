internal import ApusCore
internal import HTTPTypes

/// Why a request was not served, as its sender reads it: RFC 9457, "Problem Details for HTTP APIs".
struct ProblemDetails: Error, Hashable {
    /// The problem types: a closed set, each with one status and one title for ever.
    enum Kind: String, CaseIterable {
        case malformedRequest = "malformed-request"
        case unauthorized
        case forbidden
        case notFound = "not-found"
        case methodNotAllowed = "method-not-allowed"
        case conflict
        case preconditionFailed = "precondition-failed"
        case contentTooLarge = "content-too-large"
        case unsupportedMediaType = "unsupported-media-type"
        case invalidContent = "invalid-content"
        case tooManyRequests = "too-many-requests"
        case internalError = "internal-error"
        case unavailable
    }

    /// A part of the body that is not as it must be.
    struct Part: Hashable {
        /// Where: a JSON pointer as a URI fragment (RFC 6901 §6).
        let pointer: String
        /// The rule. Never what stands there: it may be a token.
        let detail: String
    }

    let kind: Kind
    let detail: String
    var parts: [Part] = []
    /// When to ask again; nil: not by waiting.
    var retryAfterSeconds: Int?
    /// What may be asked instead; only with `methodNotAllowed`.
    var allowed: [String] = []
    /// As metrics count it, when somebody known wants what is another's.
    var authenticationCause: AuthenticationCause?
    /// Whether the answer says what patches are taken.
    var acceptsPatches = false
    /// What the operator must know and the sender must not.
    var cause: String?

    init(_ kind: Kind, _ detail: String) {
        self.kind = kind
        self.detail = detail
    }

    /// The body breaks rules there.
    static func invalid(_ parts: [Part]) -> ProblemDetails {
        precondition(!parts.isEmpty)
        var problem = ProblemDetails(.invalidContent, "the content breaks a rule")
        problem.parts = parts
        return problem
    }

    /// What is asked for is another's.
    static func foreign(_ detail: String) -> ProblemDetails {
        var problem = ProblemDetails(.forbidden, detail)
        problem.authenticationCause = .owner
        return problem
    }

    /// The body breaks a rule there.
    static func invalid(_ pointer: String, _ detail: String) -> ProblemDetails {
        .invalid([Part(pointer: pointer, detail: detail)])
    }

    /// What nobody foresaw. What it was stays here.
    init(unexpected error: any Error) {
        self.init(.internalError, "the request could not be carried out")
        self.cause = "\(error)"
    }

    /// Not now.
    static func unavailable(_ detail: String, retryAfterSeconds: Int, cause: String) -> ProblemDetails {
        var problem = ProblemDetails(.unavailable, detail)
        problem.retryAfterSeconds = retryAfterSeconds
        problem.cause = cause
        return problem
    }

    /// The body of the answer.
    func json(requestID: String) -> [UInt8] {
        var body: [UInt8] = []
        body.reserveCapacity(256)
        body += "{\"type\":\"\(self.kind.type)\",\"title\":\"\(self.kind.title)\"".utf8
        body += ",\"status\":\(self.kind.status.code),\"detail\":".utf8
        JSONWriter.append(string: self.detail, to: &body)
        body += ",\"instance\":".utf8
        JSONWriter.append(string: "/requests/\(requestID)", to: &body)
        self.appendParts(to: &body)
        body += "}\n".utf8
        return body
    }

    /// The member `errors`, after another member; nothing when there are none.
    func appendParts(to body: inout [UInt8]) {
        guard !self.parts.isEmpty else { return }
        body += ",\"errors\":[".utf8
        for (index, part) in self.parts.enumerated() {
            body += (index > 0 ? ",{\"pointer\":" : "{\"pointer\":").utf8
            JSONWriter.append(string: part.pointer, to: &body)
            body += ",\"detail\":".utf8
            JSONWriter.append(string: part.detail, to: &body)
            body.append(UInt8(ascii: "}"))
        }
        body.append(UInt8(ascii: "]"))
    }
}

extension ProblemDetails.Kind {
    /// The problem's type (RFC 9457 §3.1.1).
    var type: String { "urn:apus:problem:\(self.rawValue)" }

    /// The status that goes with it.
    var status: HTTPResponse.Status {
        switch self {
        case .malformedRequest: .badRequest
        case .unauthorized: .unauthorized
        case .forbidden: .forbidden
        case .notFound: .notFound
        case .methodNotAllowed: .methodNotAllowed
        case .conflict: .conflict
        case .preconditionFailed: .preconditionFailed
        case .contentTooLarge: .contentTooLarge
        case .unsupportedMediaType: .unsupportedMediaType
        case .invalidContent: .unprocessableContent
        case .tooManyRequests: .tooManyRequests
        case .internalError: .internalServerError
        case .unavailable: .serviceUnavailable
        }
    }

    /// The same words each time.
    var title: String {
        switch self {
        case .malformedRequest: "The request is not well formed"
        case .unauthorized: "Valid credentials are needed"
        case .forbidden: "These credentials do not allow that"
        case .notFound: "There is no such resource"
        case .methodNotAllowed: "The resource does not have that method"
        case .conflict: "The request conflicts with another resource"
        case .preconditionFailed: "The resource is not in the state that was made a condition"
        case .contentTooLarge: "The content is too large"
        case .unsupportedMediaType: "The content has a type that is not taken"
        case .invalidContent: "The content is not valid"
        case .tooManyRequests: "Too many requests"
        case .internalError: "Something went wrong here"
        case .unavailable: "The service cannot do that now"
        }
    }

    /// As metrics count it.
    var code: HTTPCode {
        switch self {
        case .malformedRequest: .badRequest
        case .unauthorized: .unauthorized
        case .forbidden: .forbidden
        case .notFound: .notFound
        case .methodNotAllowed: .methodNotAllowed
        case .conflict: .conflict
        case .preconditionFailed: .preconditionFailed
        case .contentTooLarge: .contentTooLarge
        case .unsupportedMediaType: .unsupportedMediaType
        case .invalidContent: .unprocessable
        case .tooManyRequests: .tooManyRequests
        case .internalError: .internalError
        case .unavailable: .unavailable
        }
    }

    /// As metrics count what is refused for what it asks; nil: that is counted elsewhere.
    var rejection: RejectionCause? {
        switch self {
        case .malformedRequest, .unsupportedMediaType: .malformed
        case .invalidContent: .validation
        case .contentTooLarge: .limit
        case .preconditionFailed: .precondition
        case .conflict: .conflict
        case .tooManyRequests: .rate
        case .unauthorized, .forbidden, .notFound, .methodNotAllowed, .internalError, .unavailable: nil
        }
    }
}
