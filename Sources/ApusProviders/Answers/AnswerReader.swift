package import ApusCore
package import ApusHTTP2

/// The meaning of an answer, in the vocabulary that all providers share.
package struct AnswerMeaning: Sendable {
    /// The outcome of the request.
    package var outcome: DeliveryOutcome
    /// The provider's reason, cleaned; a substitute when the answer holds none.
    package var word: String
    /// True when the provider called something invalid that may be the token or the message: the token is tested with a validate-only
    /// message where the provider has such a thing; else the refusal is noted, and counts against the token when it repeats.
    package var wantsTokenProbe: Bool
    /// The field of the message that the provider rejects; empty when it names none.
    package var rejectedField: String
    /// True when it rejects the field on one platform alone: recipients on others may get the message.
    package var isOfOnePlatform: Bool

    /// Creates a meaning.
    package init(
        _ outcome: DeliveryOutcome,
        word: String,
        wantsTokenProbe: Bool = false,
        rejectedField: String = "",
        isOfOnePlatform: Bool = false,
    ) {
        self.outcome = outcome
        self.word = word
        self.wantsTokenProbe = wantsTokenProbe
        self.rejectedField = rejectedField
        self.isOfOnePlatform = isOfOnePlatform
    }
}

/// The meaning of a GOAWAY by which the provider closes a connection.
package enum GoAwayMeaning: Hashable, Sendable {
    /// Open a new connection.
    case reconnect(word: String?)
    /// The configuration must be corrected first: a new connection would end the same way.
    case misconfigured(Misconfiguration, word: String)
}

/// Interprets the answers of one provider. It is called for refusals, and for an accepted request only where its id is
/// needed: nearly all answers bypass it.
package protocol AnswerReader: Sendable {
    /// The statuses of accepted requests, whose answers are not read.
    var acceptedStatuses: Range<Int> { get }
    /// The headers by which an answer with such a status may say that the notification was not accepted: then it is read, too.
    var qualifyingFields: [HTTP2AnswerField] { get }
    /// Returns the meaning of any other answer. Never fails: unreadable parts are ignored.
    ///
    /// - Parameter retryAfterMilliseconds: the wait that the header `retry-after` asks for; nil without the header.
    func meaning(of answer: PlainAnswer, retryAfterMilliseconds: Int64?) -> AnswerMeaning
    /// Returns the provider's id of the notification, cleaned; empty when the answer holds none.
    func id(in answer: PlainAnswer) -> String
    /// Returns the meaning of a GOAWAY's debug data.
    func meaning(ofGoAway debug: [UInt8]) -> GoAwayMeaning
}

extension AnswerReader {
    /// 200 only.
    package var acceptedStatuses: Range<Int> { 200..<201 }
    /// None.
    package var qualifyingFields: [HTTP2AnswerField] { [] }
    /// Returns `reconnect`, for providers whose GOAWAY frames hold no reason.
    package func meaning(ofGoAway debug: [UInt8]) -> GoAwayMeaning { .reconnect(word: nil) }
}

/// Holds an answer that was copied out of its connection.
package struct PlainAnswer: Sendable {
    /// The HTTP status.
    package let status: Int
    /// The body, cut off at the connection's limit.
    package let body: [UInt8]
    /// The known headers by name.
    package let headers: [HTTP2AnswerField: String]

    /// Creates an answer.
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
