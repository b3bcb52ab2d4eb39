internal import ApusCore
internal import Logging
internal import Synchronization

/// Logs faults of our own, at most once a second, with the number of those left out: an outage is one line a second, not one for each
/// request.
final class ErrorLog: Sendable {
    private struct State {
        var last: ContinuousClock.Instant?
        var omitted = 0
        var unknownApps: Set<AppID> = []
    }

    /// The maximum of unknown apps that are logged.
    static let unknownAppsMax = 100

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
            defer { (state.last, state.omitted) = (now, 0) }
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

    /// Logs the first request for an app that the configuration does not have: its answer is that of a wrong key.
    func recordUnknownApp(_ name: String) {
        guard let app = try? AppID(name) else { return }
        let isNew = self.state.withLock { state in
            state.unknownApps.count < Self.unknownAppsMax && state.unknownApps.insert(app).inserted
        }
        guard isNew else { return }
        self.logger.warning(
            "a request is for an app that is not in the configuration of this service: it is answered with 401",
            metadata: ["app": "\(app)"]
        )
    }
}
