internal import ApusStore
internal import HTTPTypes

/// A request as the API sees it: its body is there as a whole.
struct APIRequest {
    let method: HTTPRequest.Method
    let headers: HTTPFields
    let body: [UInt8]

    /// The condition for a change.
    func condition() throws(ProblemDetails) -> DeviceCondition {
        try EntityTags.condition(ifMatch: self.headers[.ifMatch], ifNoneMatch: self.headers[.ifNoneMatch])
    }

    /// The body's type, one of those.
    func contentType(_ allowed: [MediaType]) throws(ProblemDetails) -> MediaType {
        guard !self.headers.contains(.contentEncoding) else {
            throw ProblemDetails(.unsupportedMediaType, "encoded content is not taken")
        }
        if let text = self.headers[.contentType], let type = MediaType(contentType: text), allowed.contains(type) {
            return type
        }
        throw ProblemDetails(
            .unsupportedMediaType,
            "the content must be " + allowed.map(\.name).joined(separator: " or "),
        )
    }
}

/// What is answered.
struct APIResponse {
    let status: HTTPResponse.Status
    var headers: HTTPFields = [:]
    var body: [UInt8] = []

    /// 204.
    static let done = APIResponse(status: .noContent)
}
