internal import ApusCore
internal import HTTPTypes

/// Describes to the client why a request was not served: RFC 9457, "Problem Details for HTTP APIs".
struct ProblemDetails: Error, Hashable, CustomStringConvertible {
    /// Names the problem types: a closed set, each with a status and a title that never change.
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
        case expectationFailed = "expectation-failed"
        case invalidContent = "invalid-content"
        case tooManyRequests = "too-many-requests"
        case internalError = "internal-error"
        case overloaded
        case unavailable
    }

    /// Describes a part of the body that breaks a rule.
    struct Part: Hashable {
        /// The location: a JSON pointer as a URI fragment (RFC 6901 §6).
        let pointer: String
        /// The rule. The value is never included, because it may be a token.
        let detail: String
    }

    /// The maximum of parts that a problem names: a few bytes of a body may be a mistake, whose text takes many more.
    static let partsMax = 100

    let kind: Kind
    let detail: String
    var parts: [Part] = []
    /// The time after which to ask again; nil when waiting does not help.
    var retryAfterSeconds: Int?
    /// The methods that are allowed, only with `methodNotAllowed`.
    var allowed: [String] = []
    /// The cause in metrics, when an identified caller asks for what belongs to another.
    var authenticationCause: AuthenticationCause?
    /// True when the answer names the accepted patch formats.
    var acceptsPatches = false
    /// The detail for the operator, which the client must not see.
    var cause: String?

    /// The detail, and the parts of the body that break a rule.
    var description: String {
        ([self.detail] + self.parts.map { "\($0.pointer) \($0.detail)" }).joined(separator: "; ")
    }

    init(_ kind: Kind, _ detail: String) {
        self.kind = kind
        self.detail = detail
    }

    /// Returns the problem of a body that breaks rules. Parts beyond the maximum become one, which says that there are more.
    static func invalid(_ parts: [Part]) -> ProblemDetails {
        precondition(!parts.isEmpty)
        var problem = ProblemDetails(.invalidContent, "the content breaks a rule")
        problem.parts = Array(parts.prefix(Self.partsMax))
        if parts.count > Self.partsMax {
            problem.parts.append(Part(pointer: "#", detail: "has further mistakes, which are not named"))
        }
        return problem
    }

    /// Returns the problem of a caller that asks for what belongs to another.
    static func foreign(_ detail: String) -> ProblemDetails {
        var problem = ProblemDetails(.forbidden, detail)
        problem.authenticationCause = .owner
        return problem
    }

    /// Returns the problem of a caller that could not be identified, or may not do what it asks for.
    init(_ failure: AuthenticationFailure) {
        self.init(failure.cause == .role ? .forbidden : .unauthorized, failure.detail)
        self.authenticationCause = failure.cause
    }

    /// Returns the problem of a caller whose key may be one that could not be read yet.
    static func keysUnread(_ failure: AuthenticationFailure) -> ProblemDetails {
        var problem = Self.unavailable(failure.detail, retryAfterSeconds: 2, cause: failure.detail)
        problem.authenticationCause = failure.cause
        return problem
    }

    /// Returns the problem of a client whose address has failed to authenticate too often.
    static func failedTooOften(waitSeconds: Int) -> ProblemDetails {
        var problem = ProblemDetails(.tooManyRequests, "too many credentials from this address were not valid")
        problem.authenticationCause = .limited
        problem.retryAfterSeconds = waitSeconds
        return problem
    }

    /// Returns the problem of a body that breaks one rule.
    static func invalid(_ pointer: String, _ detail: String) -> ProblemDetails {
        .invalid([Part(pointer: pointer, detail: detail)])
    }

    /// Returns the problem of an unexpected error, which is not shown to the client.
    init(unexpected error: any Error) {
        self.init(.internalError, "the request could not be carried out")
        self.cause = "\(error)"
    }

    /// Returns the problem of a service that cannot answer at the moment.
    static func unavailable(_ detail: String, retryAfterSeconds: Int, cause: String) -> ProblemDetails {
        var problem = ProblemDetails(.unavailable, detail)
        problem.retryAfterSeconds = retryAfterSeconds
        problem.cause = cause
        return problem
    }

    /// The problem of a process that holds as many bytes for its clients as it may.
    static let memorySpent: ProblemDetails = {
        var problem = ProblemDetails(.overloaded, "too much is being sent, or left unread, at once; ask again")
        problem.retryAfterSeconds = APILimits.memoryRetrySeconds
        return problem
    }()

    /// The problem of a request that expects what no server has.
    static let unknownExpectation = ProblemDetails(.expectationFailed, "Expect may be 100-continue only")

    /// The problem in a sentence, with a JSON pointer for each part: `/attributes/country must have at most 2 bytes`.
    var sentence: String {
        guard !self.parts.isEmpty else { return self.detail }
        return self.parts.map { part in
            let pointer = part.pointer.dropFirst()
            return pointer.isEmpty ? "it \(part.detail)" : "\(pointer) \(part.detail)"
        }.joined(separator: "; ")
    }

    /// Returns the body of the answer.
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

    /// Appends the member `errors` behind another member; nothing when there are no errors.
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

    /// The status of the problem.
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
        case .expectationFailed: .expectationFailed
        case .invalidContent: .unprocessableContent
        case .tooManyRequests: .tooManyRequests
        case .internalError: .internalServerError
        case .overloaded, .unavailable: .serviceUnavailable
        }
    }

    /// The title, which is always the same.
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
        case .expectationFailed: "The request expects what this service does not do"
        case .invalidContent: "The content is not valid"
        case .tooManyRequests: "Too many requests"
        case .internalError: "Something went wrong here"
        case .overloaded: "The service has too much to do"
        case .unavailable: "The service cannot do that now"
        }
    }

    /// The code in metrics.
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
        case .expectationFailed: .expectationFailed
        case .invalidContent: .unprocessable
        case .tooManyRequests: .tooManyRequests
        case .internalError: .internalError
        case .overloaded, .unavailable: .unavailable
        }
    }

    /// The cause in metrics for a request that is refused for its content; nil when it is counted elsewhere.
    var rejection: RejectionCause? {
        switch self {
        case .malformedRequest, .unsupportedMediaType, .expectationFailed: .malformed
        case .invalidContent: .validation
        case .contentTooLarge: .limit
        case .preconditionFailed: .precondition
        case .conflict: .conflict
        case .tooManyRequests: .rate
        case .overloaded: .memory
        case .unauthorized, .forbidden, .notFound, .methodNotAllowed, .internalError, .unavailable: nil
        }
    }
}

/// Describes every rule that a JSON text breaks, each with its JSON pointer. It repeats no values, which may be tokens.
package struct InvalidJSON: Error, Hashable, Sendable, CustomStringConvertible {
    /// The broken rules as a sentence.
    package let description: String

    init(_ problem: ProblemDetails) { self.description = problem.sentence }
}
