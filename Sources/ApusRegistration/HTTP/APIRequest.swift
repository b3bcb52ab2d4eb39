internal import ApusCore
internal import ApusStore
internal import ApusTexts
internal import HTTPTypes
internal import Hummingbird
internal import NIOCore

/// Holds a request as the API receives it.
struct APIRequest {
    let headers: HTTPFields
    /// The whole body; empty when the route has none, or reads it as a stream.
    let body: [UInt8]
    /// The body as a stream, which is to be asked for.
    let stream: RequestBody
    /// Tells a client that waits with its content to send it.
    let askForContent: @Sendable () -> Void

    /// Returns the condition for a change.
    func condition() throws(ProblemDetails) -> DeviceCondition {
        try EntityTags.condition(ifMatch: self.headers[.ifMatch], ifNoneMatch: self.headers[.ifNoneMatch])
    }

    /// Refuses a body that is compressed.
    func checkEncoding() throws(ProblemDetails) {
        guard !self.headers.contains(.contentEncoding) else {
            throw ProblemDetails(.unsupportedMediaType, "encoded content is not taken")
        }
    }

    /// Returns the body's media type, which must be one of those.
    func contentType(_ allowed: [MediaType]) throws(ProblemDetails) -> MediaType {
        try self.checkEncoding()
        if let text = self.headers[.contentType], let type = MediaType(contentType: text), allowed.contains(type) {
            return type
        }
        throw ProblemDetails(
            .unsupportedMediaType,
            "the content must be " + allowed.map(\.name).joined(separator: " or "),
        )
    }
}

/// Holds an answer.
struct APIResponse {
    let status: HTTPResponse.Status
    var headers: HTTPFields = [:]
    var body: [UInt8] = []
    /// Replaces `body` with bytes that all such answers share; nil to send `body`.
    var shared: ByteBuffer?
    /// Writes the body as a stream instead of `body`; nil to send `body`.
    var stream: ResponseBody?

    /// Returns the answer 204.
    static let done = APIResponse(status: .noContent)

    /// The description of the API in OpenAPI 3.1 (https://spec.openapis.org/oas/v3.1.0), from `openapi.json`.
    static let openAPI = APIResponse(
        status: .ok,
        headers: [.contentType: MediaType.json.name],
        shared: ByteBuffer(bytes: EmbeddedText.openAPI),
    )

    /// Returns an answer with a JSON object.
    static func json(_ status: HTTPResponse.Status, _ object: JSONObject) -> APIResponse {
        var body: [UInt8] = []
        JSONWriter.append(object, to: &body)
        body.append(UInt8(ascii: "\n"))
        return APIResponse(status: status, headers: [.contentType: MediaType.json.name], body: body)
    }
}
