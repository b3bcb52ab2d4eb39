/// A header as it came, or as it goes.
package struct ProviderHeader: Hashable, Sendable {
    /// Lower case.
    package let name: String
    /// The value.
    package let value: String

    /// A header.
    package init(_ name: String, _ value: String) {
        self.name = name
        self.value = value
    }
}

/// A complete request at one of the simulated providers.
package struct ProviderRequest: Sendable {
    /// "POST".
    package var method: String
    /// With the query, if any.
    package var path: String
    /// Without pseudo headers, in the order they came.
    package var headers: [ProviderHeader]
    /// Raw.
    package var body: [UInt8]

    /// A request.
    package init(method: String = "POST", path: String, headers: [ProviderHeader], body: [UInt8]) {
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
    }

    /// The first value of that header.
    package func first(_ name: String) -> String? { self.headers.first { $0.name == name }?.value }

    /// A header that stands there twice, if any. (A cookie may be split, RFC 9113 §8.2.3.)
    package var duplicateHeader: String? {
        var seen: Set<String> = []
        return self.headers.first { $0.name != "cookie" && !seen.insert($0.name).inserted }?.name
    }
}

/// What a provider answers.
package struct ProviderAnswer: Hashable, Sendable {
    /// The header that says in words what strict judges found; no provider sends it.
    package static let explanationHeader = "apus-simulator"

    /// 200...599.
    package var status: Int
    /// Without `:status`.
    package var headers: [ProviderHeader]
    /// Empty, or JSON unless a script says otherwise.
    package var body: [UInt8]

    /// An answer.
    package init(status: Int, headers: [ProviderHeader] = [], body: [UInt8] = []) {
        precondition((200...599).contains(status), "a final answer has a status of 200 to 599")
        self.status = status
        self.headers = headers
        self.body = body
    }

    /// Adds the sentence for a person.
    package func explained(_ sentence: String) -> ProviderAnswer {
        var answer = self
        let printable = sentence.unicodeScalars.map { (0x20...0x7e).contains($0.value) ? Character($0) : "?" }
        answer.headers.append(ProviderHeader(Self.explanationHeader, String(printable.prefix(200))))
        return answer
    }
}
