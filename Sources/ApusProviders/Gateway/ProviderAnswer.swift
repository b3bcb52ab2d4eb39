internal import ApusCore
internal import ApusHTTP2
internal import NIOCore

/// Lends the provider's answer to one request. It is read only where it is needed: creating it costs an accepted request nothing.
///
/// It is valid only during the call that delivers it.
@safe package struct ProviderAnswer {
    /// The HTTP status; 0 when there was no answer.
    package let status: Int
    /// The time at which the request was submitted, in nanoseconds of the monotonic clock.
    package let startedAt: UInt64
    /// The time of the answer, or of the end without one, of the same clock. Answers that arrived together share it.
    package let endedAt: UInt64

    /// True when the answer is of one origin of many, or of our way to it: see ``RecipientAddressing``.
    package internal(set) var isOfOneOrigin = false
    /// True when there was a request: false for what was answered here, or handed back before it was written.
    package private(set) var wasSent = true

    private let word: String
    private let knownID: String
    /// True when the provider called something invalid without naming it: see ``AnswerMeaning/wantsTokenProbe``.
    package let wantsTokenProbe: Bool
    /// The field of the message that the provider rejects: see ``AnswerMeaning/rejectedField``.
    package let rejectedField: String
    /// True when it rejects the field on one platform alone: see ``AnswerMeaning/isOfOnePlatform``.
    package let isOfOnePlatform: Bool
    /// Both live at least as long as the call that lends the answer, because they make that call.
    private unowned(unsafe) let handler: HTTP2ClientHandler?
    private unowned(unsafe) let gateway: ProviderGateway?
    private let answer: HTTP2Answer?

    /// Creates an answer that is lent by a connection.
    ///
    /// - Parameter meaning: the meaning of a refusal; nil for an accepted request.
    @inline(__always)
    init(
        _ answer: HTTP2Answer,
        of handler: HTTP2ClientHandler,
        at gateway: ProviderGateway,
        startedAt: UInt64,
        meaning: AnswerMeaning? = nil,
    ) {
        self.status = answer.status
        self.startedAt = startedAt
        self.endedAt = handler.readAt
        self.word = meaning?.word ?? ""
        self.knownID = ""
        self.wantsTokenProbe = meaning?.wantsTokenProbe ?? false
        self.rejectedField = meaning?.rejectedField ?? ""
        self.isOfOnePlatform = meaning?.isOfOnePlatform ?? false
        unsafe self.handler = handler
        unsafe self.gateway = gateway
        self.answer = answer
    }

    /// Creates the answer to a request that was never sent.
    init(unsentSince startedAt: UInt64, reason: String) {
        self.init(startedAt: startedAt, reason: reason)
        self.wasSent = false
    }

    /// Creates the substitute for a missing answer; also used by tests.
    package init(
        status: Int = 0,
        startedAt: UInt64,
        endedAt: UInt64? = nil,
        reason: String,
        id: String = "",
    ) {
        self.status = status
        self.startedAt = startedAt
        self.endedAt = endedAt ?? NIODeadline.now().uptimeNanoseconds
        self.word = reason
        self.knownID = id
        self.wantsTokenProbe = false
        self.rejectedField = ""
        self.isOfOnePlatform = false
        unsafe self.handler = nil
        unsafe self.gateway = nil
        self.answer = nil
    }

    /// Returns the provider's reason for a refusal, or what happened instead of an answer; empty for an accepted request.
    package func reason() -> String { self.word }

    /// Returns the provider's id of the notification; empty when the answer holds none.
    package func id() -> String {
        guard let answer, let handler = unsafe self.handler, let gateway = unsafe self.gateway else {
            return self.knownID
        }
        return gateway.configuration.answers.id(in: PlainAnswer(answer, of: handler))
    }
}
