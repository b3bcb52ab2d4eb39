internal import HTTPTypes

/// Decides what a browser lets pages of other origins do with the API for one app: the CORS protocol
/// (https://fetch.spec.whatwg.org/#http-cors-protocol). Credentials are never cookies here, so only origins that are named are let in, each
/// by its own name.
struct CrossOrigin {
    /// The origins of the pages that may call the API for the app.
    let allowed: [String]

    /// The time for which a browser may keep the answer to a preflight request: the longest that Chromium keeps one.
    static let preflightSeconds = 7_200
    /// The headers that a page may send.
    static let requestHeaders = "authorization, content-type, idempotency-key, if-match, if-none-match, x-request-id"
    /// The headers that a page may read.
    static let answerHeaders = "etag, location, retry-after, www-authenticate, x-request-id"

    /// Adds the headers that every answer about the app carries.
    func addHeaders(to headers: inout HTTPFields, origin: String?) {
        guard !self.allowed.isEmpty else { return }
        // It is there also without an origin: a cache must not give that answer to a page.
        headers[.vary] = [headers[.vary], "Origin"].compactMap(\.self).joined(separator: ", ")
        guard let origin, self.allowed.contains(origin) else { return }
        headers[.accessControlAllowOrigin] = origin
        headers[.accessControlExposeHeaders] = Self.answerHeaders
    }

    /// Returns the answer to OPTIONS: the methods of the resource and, to the preflight request of a page that is let in, what it may send.
    func options(_ request: HTTPFields, _ verbs: [HTTPVerb]) -> APIResponse {
        let methods = verbs.map(\.rawValue).joined(separator: ", ")
        var answer = APIResponse.done
        answer.headers[.allow] = methods
        guard let origin = request[.origin], request.contains(.accessControlRequestMethod),
            self.allowed.contains(origin)
        else { return answer }
        answer.headers[.accessControlAllowMethods] = methods
        answer.headers[.accessControlAllowHeaders] = Self.requestHeaders
        answer.headers[.accessControlMaxAge] = String(Self.preflightSeconds)
        return answer
    }
}
