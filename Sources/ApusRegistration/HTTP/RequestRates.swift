internal import ApusCore
internal import Synchronization

/// Limits the request rates of apps, users' devices and Matrix homeservers. The limits hold for this process; several processes multiply them.
final class RequestRates: Sendable {
    private struct Client: Hashable {
        let app: AppID
        let user: UserID
    }

    private struct PushKey: Hashable {
        let app: AppID
        let device: String
    }

    private struct State {
        var backends: RateLimiter<AppID>?
        var users: RateLimiter<AppID>?
        var clients: RateLimiter<Client>?
        var matrixApps: RateLimiter<AppID>?
        var homeservers: RateLimiter<AddressCounts.Address>?
        var pushKeys: RateLimiter<PushKey>?
        var unknownPushKeys: RateLimiter<AppID>
        var removals = RateLimiter<Client>(
            interval: APILimits.userRemovalInterval,
            burst: APILimits.userRemovalInterval * APILimits.userRemovalsAtOnce,
        )
    }

    private let state: Mutex<State>
    private let start = ContinuousClock.now

    /// Creates limiters of which nothing is used.
    init(_ limits: RequestRateLimits) {
        func limiter<Key>(_ perSecond: Int?) -> RateLimiter<Key>? { perSecond.map { RateLimiter(perSecond: $0) } }
        self.state = Mutex(
            State(
                backends: limiter(limits.perApp),
                users: limiter(limits.perApp),
                clients: limiter(limits.perClient),
                matrixApps: limiter(limits.perApp),
                homeservers: limiter(limits.perHomeserver),
                pushKeys: limiter(limits.perPushKey),
                unknownPushKeys: RateLimiter(perSecond: limits.perApp ?? APILimits.unknownPushKeysPerSecond),
            )
        )
    }

    /// Counts a request of an app, or refuses it. Users' devices do not take from what their app's backends may ask.
    func check(_ app: AppID, _ caller: Caller) throws(ProblemDetails) {
        try self.check { state, now in
            guard case .user(let user) = caller else {
                return state.backends?.refusal(of: app, at: now).map { ("the app asks too often", $0) }
            }
            // The client's rate is checked first: what it may not ask for costs its app nothing.
            if let wait = state.clients?.refusal(of: Client(app: app, user: user), at: now) {
                return ("the user asks too often", wait)
            }
            return state.users?.refusal(of: app, at: now).map { ("users of the app ask too often", $0) }
        }
    }

    /// Counts a user's request to be forgotten, which reads more than any other, or refuses it.
    func checkRemoval(_ app: AppID, _ caller: Caller) throws(ProblemDetails) {
        guard case .user(let user) = caller else { return }
        try self.check { state, now in
            state.removals.refusal(of: Client(app: app, user: user), at: now)
                .map { ("the user asks to be forgotten too often", $0) }
        }
    }

    /// Counts a request of a Matrix homeserver, or refuses it.
    ///
    /// - Parameter address: the client's; nil for one without, which is not counted.
    func checkHomeserver(_ address: AddressCounts.Address?) throws(ProblemDetails) {
        guard let address else { return }
        try self.check { state, now in
            state.homeservers?.refusal(of: address, at: now).map { ("the homeserver asks too often", $0) }
        }
    }

    /// Counts each device of a Matrix homeserver's request as a request, or refuses all of them before any is looked up.
    ///
    /// - Parameters:
    ///   - count: the number of devices; the request itself counted for the first.
    ///   - address: the client's; nil for one without, which is not counted.
    func checkDevices(_ count: Int, of address: AddressCounts.Address?) throws(ProblemDetails) {
        guard let address, count > 1 else { return }
        try self.check { state, now in
            state.homeservers?.refusal(of: address, at: now, count: count - 1, counted: 1)
                .map { ("the homeserver asks for too many devices", $0) }
        }
    }

    /// Counts a push key that no device has, or refuses the rest of the request: it cost as much to look up as any other. Such keys have a
    /// rate of their own, so that invented ones take nothing from those of devices.
    ///
    /// - Parameter counted: the number of such keys that were in the request before it.
    func checkUnknownPushKey(of app: AppID, counted: Int = 0) throws(ProblemDetails) {
        try self.check { state, now in
            let wait = state.unknownPushKeys.refusal(of: app, at: now, counted: counted)
            return wait.map { ("too many push keys have no device", $0) }
        }
    }

    /// Counts a notification of a Matrix homeserver for the push key of a device, or refuses it.
    ///
    /// - Parameter counted: the number of the app's devices that were in the request before it: one that names more than the app may have at
    ///   once would never pass otherwise.
    func checkPushKey(of device: String, _ app: AppID, counted: Int = 0) throws(ProblemDetails) {
        try self.check { state, now in
            if let wait = state.pushKeys?.refusal(of: PushKey(app: app, device: device), at: now) {
                return ("there are too many notifications for the push key", wait)
            }
            return state.matrixApps?.refusal(of: app, at: now, counted: counted)
                .map { ("homeservers send the app too much", $0) }
        }
    }

    /// - Parameter refusal: returns the detail and the nanoseconds to wait of a request that is refused.
    private func check(_ refusal: (inout State, Int64) -> (String, Int64)?) throws(ProblemDetails) {
        let now = (ContinuousClock.now - self.start).nanoseconds
        guard let (detail, wait) = self.state.withLock({ refusal(&$0, now) }) else { return }
        var problem = ProblemDetails(.tooManyRequests, detail)
        problem.retryAfterSeconds = Int((wait + 999_999_999) / 1_000_000_000)
        throw problem
    }
}
