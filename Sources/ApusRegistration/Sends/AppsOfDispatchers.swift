internal import ApusInstallation
internal import ApusMessages
internal import ApusStreams
internal import Synchronization

/// Knows the apps that a dispatcher has had: a send of another app would be refused, and would keep its id for a day.
///
/// An app may stand in the configuration of this service before any dispatcher has read it. Redis is asked about an app only until it is
/// known.
final class AppsOfDispatchers: Sendable {
    private let routes: Routes
    private let known = Mutex<Set<String>>([])

    /// Creates a list that is read from an installation's routes.
    init(_ routes: Routes) {
        self.routes = routes
    }

    /// Refuses an app that no dispatcher has had, for the moment. Every app passes while none is known, because no dispatcher has run yet,
    /// and when the routes cannot be read: the receipt will tell.
    func check(_ app: String) async throws(ProblemDetails) {
        guard !self.known.withLock({ $0.contains(app) }),
            let found = try? await self.routes.apps(patience: Installation.originalPatience)
        else { return }
        self.known.withLock { $0.formUnion(found) }
        do throws(Problem) {
            try SendCommandRules.checkApp(app, among: found)
        } catch {
            throw .unavailable(
                "no dispatcher has the app yet",
                retryAfterSeconds: APILimits.appRetrySeconds,
                cause: "no dispatcher has had a route of the app \(app)",
            )
        }
    }
}
