package import ApusCore
package import ApusHTTP2

/// What an answer means, in the words that all providers share.
package struct AnswerMeaning: Sendable {
    /// What became of the request.
    package var outcome: DeliveryOutcome
    /// The provider's own word, cleaned; what stands for it when it said none.
    package var word: String
    /// Whether the token can be tested with a message that is only checked: the provider called something invalid and did not say what.
    package var wantsTokenProbe: Bool
    /// The field of the message that the provider calls wrong, whomever it is for; empty: it says no such thing.
    package var rejectedField: String

    /// A meaning.
    package init(_ outcome: DeliveryOutcome, word: String, wantsTokenProbe: Bool = false, rejectedField: String = "") {
        self.outcome = outcome
        self.word = word
        self.wantsTokenProbe = wantsTokenProbe
        self.rejectedField = rejectedField
    }
}

/// What to do when the provider closed a connection by GOAWAY.
package enum GoAwayMeaning: Hashable, Sendable {
    /// Connect again.
    case reconnect(word: String?)
    /// What it says of our configuration must be corrected first: connecting again would end the same way.
    case misconfigured(Misconfiguration, word: String)
}

/// Reads the answers of one provider. Asked about refusals, and about an accepted request only where somebody wants its id: the path of
/// nearly all answers does not come by here.
package protocol AnswerReader: Sendable {
    /// What an answer other than 200 means. Never fails: what cannot be read counts as not said.
    ///
    /// - Parameter retryAfterMilliseconds: what the answer's `retry-after` asks for, if it has one.
    func meaning(of answer: PlainAnswer, retryAfterMilliseconds: Int64?) -> AnswerMeaning
    /// What the provider calls the notification, cleaned; empty when it does not say.
    func id(in answer: PlainAnswer) -> String
    /// What the debug data of a GOAWAY means.
    func meaning(ofGoAway debug: [UInt8]) -> GoAwayMeaning
}

extension AnswerReader {
    /// A provider that says nothing in a GOAWAY is connected to again.
    package func meaning(ofGoAway debug: [UInt8]) -> GoAwayMeaning { .reconnect(word: nil) }
}

/// An answer as it came, copied out of its connection.
package struct PlainAnswer: Sendable {
    /// The HTTP status.
    package let status: Int
    /// Cut off where the connection's limit is.
    package let body: [UInt8]
    /// The headers that are known by name.
    package let headers: [HTTP2AnswerField: String]

    /// An answer.
    package init(status: Int, body: [UInt8], headers: [HTTP2AnswerField: String]) {
        self.status = status
        self.body = body
        self.headers = headers
    }

    /// Copies an answer out of its connection.
    init(_ answer: HTTP2Answer, of handler: HTTP2ClientHandler) {
        var headers: [HTTP2AnswerField: String] = [:]
        for field in HTTP2AnswerField.allCases { headers[field] = handler.value(of: field, in: answer) }
        self.init(status: answer.status, body: handler.body(of: answer), headers: headers)
    }
}
