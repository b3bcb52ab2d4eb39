/// A request that differs in all its parts, to token endpoints, channel management and the like.
package struct PlainRequest: Sendable {
    /// The method: "GET", "POST", "DELETE".
    package let method: String
    /// The host, or host and port.
    package let authority: String
    /// The absolute path with its query.
    package let path: String
    /// The headers, without pseudo headers.
    package let headers: [HeaderField]
    /// The body; when empty, the stream ends with the headers.
    package let body: [UInt8]

    /// Creates a request; throws when a part is not allowed.
    package init(
        method: String,
        authority: String,
        path: String,
        headers: [HeaderField] = [],
        body: [UInt8] = [],
    ) throws(HTTP2Error) {
        guard (1...16).contains(method.utf8.count), method.utf8.allSatisfy({ (0x41...0x5a).contains($0) }) else {
            throw HTTP2Error(.invalidMethod, "only upper-case letters are allowed")
        }
        try checkAuthority(authority)
        try checkPath(path)
        try checkHeaders(headers, reserved: [])
        guard body.count <= HTTP2Limits.requestBodyBytesMax else {
            throw HTTP2Error(.bodyTooLarge, "more than \(HTTP2Limits.requestBodyBytesMax) bytes")
        }
        self.method = method
        self.authority = authority
        self.path = path
        self.headers = headers
        self.body = body
    }

    /// The names and values of the header list, pseudo headers first.
    var texts: [(String, String)] {
        let pseudo = [
            (":method", self.method), (":scheme", "https"), (":authority", self.authority), (":path", self.path),
        ]
        return pseudo + self.headers.map { ($0.name, $0.value.text) }
    }
}

/// Checks a host, or host and port, without user information.
func checkAuthority(_ authority: String) throws(HTTP2Error) {
    let valid = authority.utf8.allSatisfy { byte in
        switch byte {
        case 0x61...0x7a, 0x41...0x5a, 0x30...0x3a, 0x2d, 0x2e, 0x5b, 0x5d, 0x5f: true
        default: false
        }
    }
    guard valid, (1...255).contains(authority.utf8.count) else {
        throw HTTP2Error(.invalidAuthority, "only a host and a port are allowed")
    }
}

/// Checks an absolute path of visible ASCII without a fragment.
func checkPath(_ path: String) throws(HTTP2Error) {
    guard path.utf8.first == 0x2f, path.utf8.count <= HTTP2Limits.pathBytesMax,
        path.utf8.allSatisfy({ (0x21...0x7e).contains($0) && $0 != 0x23 })
    else { throw HTTP2Error(.invalidPath, "only absolute paths of visible ASCII are allowed") }
}

/// Checks the number of headers, and that no name is repeated or one of `reserved`.
func checkHeaders(_ headers: [HeaderField], reserved: [String]) throws(HTTP2Error) {
    guard headers.count <= HTTP2Limits.headersMax else {
        throw HTTP2Error(.tooManyHeaders, "more than \(HTTP2Limits.headersMax)")
    }
    for (index, header) in headers.enumerated() {
        guard !reserved.contains(header.name) else {
            throw HTTP2Error(.invalidHeaderName, "\(header.name) is set for each request")
        }
        guard !headers[..<index].contains(where: { $0.name == header.name }) else {
            throw HTTP2Error(.duplicateHeader, header.name)
        }
    }
}
