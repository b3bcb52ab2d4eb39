internal import Logging
internal import Synchronization

/// Logs our own trouble, at most once a second, with the number of those not told: an outage is one line a second, not one
/// for each request.
final class TroubleLog: Sendable {
    private struct State {
        var last: ContinuousClock.Instant?
        var untold = 0
    }

    private let logger: Logger
    private let state = Mutex(State())

    init(_ logger: Logger) { self.logger = logger }

    func tell(_ problem: String, _ cause: String, requestID: String) {
        let now = ContinuousClock.now
        let untold = self.state.withLock { state -> Int? in
            if let last = state.last, now - last < .seconds(1) {
                state.untold += 1
                return nil
            }
            defer { state = State(last: now) }
            return state.untold
        }
        guard let untold else { return }
        self.logger.error(
            "a request could not be carried out",
            metadata: [
                "problem": "\(problem)", "cause": "\(cause)", "request": "\(requestID)", "others": "\(untold)",
            ],
        )
    }
}
