internal import ApusCore
internal import ApusHTTP2
internal import NIOCore

/// What the provider said to one request, read only where somebody wants it: making it costs an accepted request nothing.
///
/// Valid only while the call that brought it lasts.
@safe package struct ProviderAnswer {
    /// The HTTP status; 0: there was no answer.
    package let status: Int
    /// When the request was handed in: nanoseconds of the monotonic clock.
    package let startedAt: UInt64
    /// When the answer came, or there would be none; of the same clock. Answers that came together share it.
    package let endedAt: UInt64

    private let word: String
    private let knownID: String
    /// Whether the provider called something invalid and did not say what: see ``AnswerMeaning/wantsTokenProbe``.
    package let wantsTokenProbe: Bool
    /// The field of the message that the provider calls wrong for everybody: see ``AnswerMeaning/rejectedField``.
    package let rejectedField: String
    /// Both live at least as long as the call that lends the answer: they make that call.
    private unowned(unsafe) let handler: HTTP2ClientHandler?
    private unowned(unsafe) let gateway: ProviderGateway?
    private let answer: HTTP2Answer?

    /// An answer that is lent by a connection.
    ///
    /// - Parameter meaning: of a refusal; nil: the request was accepted.
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
        unsafe self.handler = handler
        unsafe self.gateway = gateway
        self.answer = answer
    }

    /// What stands for an answer where there was none; also for tests.
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
        unsafe self.handler = nil
        unsafe self.gateway = nil
        self.answer = nil
    }

    /// The provider's own word for a refusal; what happened instead of an answer; empty for an accepted request.
    package func reason() -> String { self.word }

    /// What the provider calls the notification; empty when it does not say.
    package func id() -> String {
        guard let answer, let handler = unsafe self.handler, let gateway = unsafe self.gateway else {
            return self.knownID
        }
        return gateway.configuration.answers.id(in: PlainAnswer(answer, of: handler))
    }
}
