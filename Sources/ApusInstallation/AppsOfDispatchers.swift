package import ApusCore
package import ApusMessages
package import ApusStreams
internal import Synchronization

/// Knows the apps that a dispatcher has had: a send of another app would be refused, and would keep its id for a day.
///
/// Redis is asked about an app only until it is known, and not again for some seconds after it did not answer.
package final class AppsOfDispatchers: Sendable {
    private struct State {
        var known: Set<String> = []
        /// The time at which a read of the routes failed; nil before that.
        var failedAt: UnixMilliseconds?
    }

    /// The time for which nobody asks again: each send would wait for a master that is away.
    static let pauseMilliseconds: Int64 = 5_000

    private let routes: Routes
    private let clock: any WallClock
    private let state = Mutex(State())

    /// Creates a list that is read from an installation's routes.
    package init(_ routes: Routes, clock: any WallClock) {
        self.routes = routes
        self.clock = clock
    }

    /// Refuses an app that no dispatcher has had. Every app passes while none is known, because no dispatcher has run yet, and when the routes
    /// cannot be read: the receipt will tell.
    package func check(_ app: String) async throws(Problem) {
        let now = self.clock.now()
        guard self.state.withLock({ Self.mustAsk(about: app, $0, now) }) else { return }
        let found: Set<String>
        do {
            found = try await self.routes.apps(patience: Installation.originalPatience)
        } catch {
            let failedAt = self.clock.now()
            self.state.withLock { $0.failedAt = failedAt }
            return
        }
        self.state.withLock { $0.known.formUnion(found) }
        try SendCommandRules.checkApp(app, among: found)
    }

    private static func mustAsk(about app: String, _ state: State, _ now: UnixMilliseconds) -> Bool {
        guard !state.known.contains(app) else { return false }
        guard let failedAt = state.failedAt else { return true }
        // A clock that was set back ends the pause, too.
        return !(0..<Self.pauseMilliseconds).contains(now.milliseconds(since: failedAt))
    }
}
