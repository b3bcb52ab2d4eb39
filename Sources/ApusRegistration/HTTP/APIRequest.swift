internal import ApusCore
internal import ApusStore
internal import HTTPTypes
internal import Hummingbird

/// A request as the API sees it.
struct APIRequest {
    let headers: HTTPFields
    /// The body as a whole; empty where the route has none, or reads it as it comes.
    let body: [UInt8]
    /// The body as it comes.
    let stream: RequestBody

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
    /// Written bit by bit instead of `body`; nil: `body`.
    var stream: ResponseBody?

    /// 204.
    static let done = APIResponse(status: .noContent)

    /// The description of the API in OpenAPI 3.1 (https://spec.openapis.org/oas/v3.1.0), as it stands in `openapi.json`.
    static let openAPI = APIResponse(
        status: .ok,
        headers: [.contentType: MediaType.json.name],
        body: PackageResources.openapi_json,
    )

    /// A JSON object.
    static func json(_ status: HTTPResponse.Status, _ object: JSONObject) -> APIResponse {
        var body: [UInt8] = []
        JSONWriter.append(object, to: &body)
        body.append(UInt8(ascii: "\n"))
        return APIResponse(status: status, headers: [.contentType: MediaType.json.name], body: body)
    }
}
