internal import Logging
internal import Synchronization

/// Logs faults of our own, at most once a second, with the number of those left out: an outage is one line a second, not one for each
/// request.
final class ErrorLog: Sendable {
    private struct State {
        var last: ContinuousClock.Instant?
        var omitted = 0
    }

    private let logger: Logger
    private let state = Mutex(State())

    init(_ logger: Logger) { self.logger = logger }

    func record(_ problem: String, _ cause: String, requestID: String) {
        let now = ContinuousClock.now
        let omitted = self.state.withLock { state -> Int? in
            if let last = state.last, now - last < .seconds(1) {
                state.omitted += 1
                return nil
            }
            defer { state = State(last: now) }
            return state.omitted
        }
        guard let omitted else { return }
        self.logger.error(
            "a request failed for a reason of our own",
            metadata: [
                "problem": "\(problem)", "cause": "\(cause)", "request": "\(requestID)", "others": "\(omitted)",
            ],
        )
    }
}
