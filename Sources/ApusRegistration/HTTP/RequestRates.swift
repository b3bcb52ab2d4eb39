internal import ApusCore
internal import Synchronization

/// How often an app, and a user's devices, may ask. Of this process: as many processes, as many times the rate.
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
    ///   - perApp: requests per second for each app; nil: no limit.
    ///   - perClient: requests per second for each user of an app, whatever the number of its devices; nil: no limit. Backends
    ///     are held by the app's rate only.
    init(perApp: Int?, perClient: Int?) {
        self.state = Mutex(
            State(
                apps: perApp.map { RateLimiter(perSecond: $0) },
                clients: perClient.map { RateLimiter(perSecond: $0) },
            )
        )
    }

    /// Takes a request into account, or refuses it.
    func check(_ app: AppID, _ caller: Caller) throws(ProblemDetails) {
        let now = (ContinuousClock.now - self.start).nanoseconds
        let refusal = self.state.withLock { state -> (String, Int64)? in
            // The client first: what it may not ask takes nothing from its app.
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
