/// What a server answered.
package struct HTTPAnswer: Hashable, Sendable {
    /// The status.
    package var status: Int
    /// The content; empty when it was handed out on the way.
    package var body: [UInt8]
}

/// Why there is no answer.
package struct HTTPFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The sentence.
    package let description: String
}

/// A request.
package struct HTTPOrder: Sendable {
    /// GET, PUT …
    package var method: String
    /// With the query.
    package var path: String
    /// Beside host and content-length.
    package var headers: [(String, String)]
    /// The content.
    package var body: [UInt8]

    /// A request.
    package init(_ method: String, _ path: String, headers: [(String, String)] = [], body: [UInt8] = []) {
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
    }
}
