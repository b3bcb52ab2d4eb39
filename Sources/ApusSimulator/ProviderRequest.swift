public import ApusCore

/// A header of a request or an answer.
package struct ProviderHeader: Hashable, Sendable {
    /// The name in lower case.
    package let name: String
    /// The value.
    package let value: String

    /// Creates a header.
    package init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}

/// A complete request to a simulated provider.
package struct ProviderRequest: Sendable {
    /// The method, such as "POST".
    package var method: String
    /// The host that the request is for, with its port unless that is 443; empty when it is not known.
    package var authority: String
    /// The path with its query, if it has one.
    package var path: String
    /// The headers without pseudo headers, in the order of arrival.
    package var headers: [ProviderHeader]
    /// The raw body.
    package var body: [UInt8]

    /// Creates a request.
    package init(
        method: String = "POST",
        authority: String = "",
        path: String,
        headers: [ProviderHeader],
        body: [UInt8],
    ) {
        self.method = method
        self.authority = authority
        self.path = path
        self.headers = headers
        self.body = body
    }

    /// Returns the first value of a header.
    package func first(_ name: String) -> String? { self.headers.first { $0.name == name }?.value }

    /// The name of a repeated header; nil for none. (A cookie may be split, RFC 9113 §8.2.3.)
    package var duplicateHeader: String? {
        var seen: Set<String> = []
        return self.headers.first { $0.name != "cookie" && !seen.insert($0.name).inserted }?.name
    }
}

/// A notification that a strict simulator accepted, unchanged.
public struct AcceptedRequest: Sendable {
    /// The provider that accepted it.
    public let provider: Provider
    /// The value of ":authority"; empty when it was not given.
    public let authority: String
    /// The value of ":path".
    public let path: String
    /// The other headers, in the order of arrival.
    public let headers: [(name: String, value: String)]
    /// The raw body.
    public let body: [UInt8]

    init(_ provider: Provider, _ request: ProviderRequest) {
        self.provider = provider
        self.authority = request.authority
        self.path = request.path
        self.headers = request.headers.map { ($0.name, $0.value) }
        self.body = request.body
    }
}

/// An answer of a simulated provider.
package struct ProviderAnswer: Hashable, Sendable {
    /// The header that explains a refusal in words; no real provider sends it.
    package static let explanationHeader = "apus-simulator"

    /// The status, 200...599.
    package var status: Int
    /// The headers without `:status`.
    package var headers: [ProviderHeader]
    /// The body; empty, or JSON unless a script defines another.
    package var body: [UInt8]

    /// Creates an answer.
    package init(status: Int, headers: [ProviderHeader] = [], body: [UInt8] = []) {
        precondition((200...599).contains(status), "a final answer has a status of 200 to 599")
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// Creates an answer with a JSON body.
    init(status: Int, json object: JSONObject, contentType: String = "application/json") {
        let headers = [ProviderHeader("content-type", contentType)]
        self.init(status: status, headers: headers, body: JSONValue.object(object).bytes)
    }

    /// Returns the answer with a sentence that explains it.
    package func explained(_ sentence: String) -> ProviderAnswer {
        var answer = self
        let printable = sentence.unicodeScalars.map { (0x20...0x7e).contains($0.value) ? Character($0) : "?" }
        answer.headers.append(ProviderHeader(Self.explanationHeader, String(printable.prefix(200))))
        return answer
    }

    /// True for an accepted request.
    var isAccepted: Bool { (200..<300).contains(self.status) }

    /// The answer with half of its body.
    var half: ProviderAnswer {
        var answer = self
        answer.body = Array(self.body.prefix(self.body.count / 2))
        return answer
    }
}
