internal import ApusCore

/// The faults that requests can meet.
public enum Fault: Hashable, Sendable {
    /// 429, with `Retry-After` if the plan has one.
    case tooManyRequests
    /// 503, with `Retry-After` if the plan has one.
    case unavailable
    /// 500.
    case internalError
    /// The request is accepted and never answered.
    case silence
    /// RST_STREAM with REFUSED_STREAM: the request was not processed (RFC 9113 §8.7).
    case refusal
    /// The request is accepted, and then the connection breaks.
    case drop
    /// The request is answered, and GOAWAY with its stream as the last one follows: later requests are not processed.
    case goAway
    /// Half of the answer's body is sent, and the stream stays open.
    case halfBody
    /// A literal answer.
    case answer(status: Int, body: String)
    /// The provider's answer with a reason: see ``ReasonRate``.
    case reason(String)
    /// An error for tokens of a batch that is accepted: for those that contain a text, or for all. It applies to batches only.
    case result(String, tokensContaining: String?)

    /// The name in plans, ledgers and summaries.
    public var name: String {
        switch self {
        case .tooManyRequests: "too_many_requests"
        case .unavailable: "unavailable"
        case .internalError: "internal_error"
        case .silence: "silence"
        case .refusal: "refusal"
        case .drop: "drop"
        case .goAway: "go_away"
        case .halfBody: "half_body"
        case .answer: "answer"
        case .reason: "reason"
        case .result: "result"
        }
    }

    /// The name in counters: answers have their status or reason, such as "reason:BadDeviceToken" or "answer:502".
    package var label: String {
        switch self {
        case .answer(let status, _): "\(self.name):\(status)"
        case .reason(let word), .result(let word, _): "\(self.name):\(word)"
        default: self.name
        }
    }

    /// The faults without parameters.
    static let named: [Fault] = [
        .tooManyRequests, .unavailable, .internalError, .silence, .refusal, .drop, .goAway, .halfBody,
    ]

    /// The number in packed ledger entries; 0 stands for no fault.
    var code: UInt8 {
        switch self {
        case .tooManyRequests: 1
        case .unavailable: 2
        case .internalError: 3
        case .silence: 4
        case .refusal: 5
        case .drop: 6
        case .goAway: 7
        case .answer: 8
        case .halfBody: 9
        case .reason: 10
        case .result: 11
        }
    }

    /// Returns the name of a packed number, of which an entry has room for 31.
    static func name(code: UInt8) -> String? {
        switch code {
        case 8: "answer"
        case 10: "reason"
        case 11: "result"
        default: Self.named.first { $0.code == code }?.name
        }
    }
}

/// The forms of `Retry-After` beside 429 and 503.
public enum RetryAfterForm: Hashable, Sendable {
    /// There is no header.
    case absent
    /// Seconds.
    case seconds(Int)
    /// A date the given seconds ahead.
    case date(seconds: Int)
    /// Both forms in turn.
    case alternating(seconds: Int)
}

extension SimulatedProvider {
    /// Returns the answer to a fault in the form that all requests of the route share; nil for faults without an answer.
    ///
    /// - Parameters:
    ///   - id: the id of the request.
    ///   - number: selects between the alternating forms of `Retry-After`.
    static func answer(
        _ fault: Fault,
        route: FaultRoute,
        id: String?,
        retryAfter: RetryAfterForm,
        number: UInt64,
        now: UnixMilliseconds,
    ) -> ProviderAnswer? {
        var answer: ProviderAnswer
        switch fault {
        case .silence, .refusal, .drop, .goAway, .halfBody, .result: return nil
        case .answer(let status, let body):
            let type = body.utf8.first == 0x7b ? "application/json" : "text/html"
            return ProviderAnswer(
                status: status,
                headers: [ProviderHeader("content-type", type)],
                body: Array(body.utf8),
            )
        case .reason(let reason):
            guard let found = Self.answer(reason: reason, route: route, id: id, now: now) else { return nil }
            answer = found
        case .tooManyRequests, .unavailable, .internalError:
            answer = Self.answer(status: fault, route: route, id: id)
        }
        if [429, 503].contains(answer.status), let value = retryAfter.value(number: number, now: now) {
            answer.headers.append(ProviderHeader("retry-after", value))
        }
        return answer
    }

    /// Returns the answer to a fault for a request; nil for faults without an answer.
    static func answer(_ fault: Fault, _ context: RequestContext, id: String?) -> ProviderAnswer? {
        Self.answer(
            fault,
            route: context.route,
            id: id,
            retryAfter: context.retryAfter,
            number: context.number,
            now: context.now,
        )
    }
}

extension RetryAfterForm {
    /// Returns the header's value; nil when there is none.
    fileprivate func value(number: UInt64, now: UnixMilliseconds) -> String? {
        switch self {
        case .absent: return nil
        case .seconds(let seconds): return String(seconds)
        case .date(let seconds): return HTTPDate.text(now.advanced(byMilliseconds: Int64(seconds) * 1_000))
        case .alternating(let seconds):
            let form = number.isMultiple(of: 2) ? RetryAfterForm.seconds(seconds) : .date(seconds: seconds)
            return form.value(number: number, now: now)
        }
    }
}
