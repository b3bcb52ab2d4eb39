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
    /// Lives at least as long as the call that lends the answer: the handler makes that call.
    private unowned(unsafe) let handler: HTTP2ClientHandler?
    private let answer: HTTP2Answer?
    private let provider: Provider

    /// An answer that is lent by a connection.
    @inline(__always)
    init(
        _ answer: HTTP2Answer,
        of handler: HTTP2ClientHandler,
        from provider: Provider,
        startedAt: UInt64,
        word: String
    ) {
        self.status = answer.status
        self.startedAt = startedAt
        self.endedAt = handler.readAt
        self.word = word
        self.knownID = ""
        unsafe self.handler = handler
        self.answer = answer
        self.provider = provider
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
        unsafe self.handler = nil
        self.answer = nil
        self.provider = .apns
    }

    /// The provider's own word for a refusal; what happened instead of an answer; empty for an accepted request.
    package func reason() -> String { self.word }

    /// Whether FCM calls something invalid and does not say what: see ``FCMAnswer/wantsProbe``.
    package func wantsProbe() -> Bool {
        guard self.status == 400, self.provider == .fcm, let answer, let handler = unsafe self.handler else {
            return false
        }
        return FCMAnswer(status: 400, body: handler.body(of: answer)).wantsProbe
    }

    /// The field of the message that FCM calls wrong for everybody: see ``FCMAnswer/blamedField``; empty: none.
    package func blamedField() -> String {
        guard self.status == 400, self.provider == .fcm, let answer, let handler = unsafe self.handler else {
            return ""
        }
        return FCMAnswer(status: 400, body: handler.body(of: answer)).blamedField ?? ""
    }

    /// What the provider calls the notification: `apns-id`, or the name of FCM's message; empty when it does not say.
    ///
    /// In its sandbox Apple has an id of its own besides, by which its console shows what became of the notification: it stands behind
    /// a slash
    /// (https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns).
    package func id() -> String {
        guard let answer, let handler = unsafe self.handler else { return self.knownID }
        switch self.provider {
        case .apns:
            // A broadcast is known by the id of its request.
            let id = handler.value(of: .apnsID, in: answer) ?? handler.value(of: .apnsRequestID, in: answer)
            guard let own = handler.value(of: .apnsUniqueID, in: answer) else { return ProviderText.cleaned(id ?? "") }
            return ProviderText.cleaned("\(id ?? "")/\(own)")
        case .fcm:
            guard answer.status == 200 else { return "" }
            return FCMAnswer(status: 200, body: handler.body(of: answer)).name ?? ""
        case .webpush: return ProviderText.cleaned(handler.value(of: .location, in: answer) ?? "")
        }
    }
}
