internal import ApusCore
internal import Synchronization

/// Limits the request rates of an app, and of a user's devices. The limits hold for this process; several processes multiply them.
final class RequestRates: Sendable {
    private struct Client: Hashable {
        let app: AppID
        let user: UserID
    }

    private struct State {
        var apps: RateLimiter<AppID>?
        var clients: RateLimiter<Client>?
    }

    private let state: Mutex<State>
    private let start = ContinuousClock.now

    /// - Parameters:
    ///   - perApp: the requests per second of each app; nil for no limit.
    ///   - perClient: the requests per second of each user of an app, whatever the number of its devices; nil for no limit. Backends are
    ///     limited by the app's rate only.
    init(perApp: Int?, perClient: Int?) {
        self.state = Mutex(
            State(
                apps: perApp.map { RateLimiter(perSecond: $0) },
                clients: perClient.map { RateLimiter(perSecond: $0) },
            )
        )
    }

    /// Counts a request, or refuses it.
    func check(_ app: AppID, _ caller: Caller) throws(ProblemDetails) {
        let now = (ContinuousClock.now - self.start).nanoseconds
        let refusal = self.state.withLock { state -> (String, Int64)? in
            // The client's rate is checked first: what it may not ask for costs its app nothing.
            if case .user(let user) = caller,
                let wait = state.clients?.refusal(of: Client(app: app, user: user), at: now)
            {
                return ("the user asks too often", wait)
            }
            return state.apps?.refusal(of: app, at: now).map { ("the app asks too often", $0) }
        }
        guard let (detail, wait) = refusal else { return }
        var problem = ProblemDetails(.tooManyRequests, detail)
        problem.retryAfterSeconds = Int((wait + 999_999_999) / 1_000_000_000)
        throw problem
    }
}
