internal import ApusCore

/// How each provider words a fault.
enum FaultAnswers {
    /// The answer to a request that a fault struck; nil for faults without one.
    ///
    /// - Parameters:
    ///   - id: the request's `apns-id`.
    ///   - number: tells which form of `Retry-After` has its turn.
    static func answer(
        _ fault: Fault,
        route: FaultRoute,
        retryAfter: RetryAfterForm,
        id: String?,
        number: UInt64,
        now: UnixMilliseconds,
    ) -> ProviderAnswer? {
        switch fault {
        case .silence, .refusal, .drop, .goAway, .halfBody, .result: return nil
        case .reason(let word):
            var answer = FaultReasons.answer(word, route: route, id: id, now: now)
            if let value = Self.value(of: retryAfter, number: number, now: now), [429, 503].contains(answer?.status) {
                answer?.headers.append(ProviderHeader("retry-after", value))
            }
            return answer
        case .answer(let status, let body):
            let type = body.utf8.first == 0x7b ? "application/json" : "text/html"
            return ProviderAnswer(
                status: status,
                headers: [ProviderHeader("content-type", type)],
                body: Array(body.utf8),
            )
        case .internalError: return Self.worded(fault, route: route, id: id)
        case .tooManyRequests, .unavailable:
            var answer = Self.worded(fault, route: route, id: id)
            if let value = Self.value(of: retryAfter, number: number, now: now) {
                answer.headers.append(ProviderHeader("retry-after", value))
            }
            return answer
        }
    }

    private static func value(of form: RetryAfterForm, number: UInt64, now: UnixMilliseconds) -> String? {
        switch form {
        case .absent: nil
        case .seconds(let seconds): String(seconds)
        case .date(let seconds): HTTPDate.text(now.advanced(byMilliseconds: Int64(seconds) * 1_000))
        case .alternating(let seconds):
            Self.value(
                of: number.isMultiple(of: 2) ? .seconds(seconds) : .date(seconds: seconds),
                number: number,
                now: now,
            )
        }
    }

    private static func worded(_ fault: Fault, route: FaultRoute, id: String?) -> ProviderAnswer {
        switch route {
        case .apns: Self.apple(fault).answer(id: id)
        case .fcm: Self.google(fault).answer
        case .oauth: Self.oauth(fault)
        }
    }

    private static func apple(_ fault: Fault) -> APNsRejection {
        switch fault {
        case .tooManyRequests: .tooManyRequests
        case .unavailable: .serviceUnavailable
        default: .internalServerError
        }
    }

    private static func google(_ fault: Fault) -> FCMRefusal {
        switch fault {
        case .tooManyRequests:
            FCMRefusal(
                429,
                "Quota exceeded for quota metric 'Send requests' and limit 'Send requests per minute'.",
                code: .quotaExceeded,
                quota: "project",
            )
        case .unavailable: FCMRefusal(.unavailable, "The service is currently unavailable.")
        default: FCMRefusal(.internalError, "Internal error encountered.")
        }
    }

    private static func oauth(_ fault: Fault) -> ProviderAnswer {
        let status =
            switch fault {
            case .tooManyRequests: 429
            case .unavailable: 503
            default: 500
            }
        return ProviderAnswer(
            status: status,
            headers: [ProviderHeader("content-type", "application/json; charset=utf-8")],
            body: JSONValue.object(["error": status == 500 ? "internal_failure" : "temporarily_unavailable"]).bytes,
        )
    }
}
