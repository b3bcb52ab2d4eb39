package import ApusRedis
internal import ServiceLifecycle
internal import Synchronization

/// Ends a service's parts so that they are made anew with the changed settings, in the same process.
///
/// It is for whatever cannot change while it runs, such as the list of routes or a listening address. The parts end as at a shutdown: what
/// is on its way ends, and the rest is handed back, so that nothing is lost or repeated. The parts say what they can take over and what they
/// need to start; `SettingsWatcher` alone asks for new ones.
public final class Renewal<Own: ServiceSettings>: Sendable {
    /// Takes over what the running parts can of changed settings, and returns what they cannot.
    package typealias Review = @Sendable (Settings<Own>) async -> SettingsReview
    /// Reads from Redis what the service needs to start.
    package typealias Opening = @Sendable (RedisClient) async throws(RedisError) -> Void

    private struct State {
        var reasons: [String] = []
        var changes = 0
        var review: Review?
        var opening: Opening?
    }

    /// False where nobody makes the parts anew: then changes wait for the next start.
    public let isPossible: Bool
    private let state = Mutex(State())
    private let requests: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation
    /// Each element asks for a decision about the newest settings.
    let looks: AsyncStream<Void>
    private let lookAsked: AsyncStream<Void>.Continuation

    init(isPossible: Bool) {
        self.isPossible = isPossible
        (self.requests, self.continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        (self.looks, self.lookAsked) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Sets the review of changed settings. What has changed since the parts are being made is reviewed, too.
    package func setReview(_ review: @escaping Review) {
        let isLate = self.state.withLock { state in
            state.review = review
            if state.changes > 0 { state.changes += 1 }
            return state.changes > 0
        }
        if isLate { self.look() }
    }

    /// Sets what changed settings of Redis are tried with before the parts end for them.
    package func setOpening(_ opening: @escaping Opening) { self.state.withLock { $0.opening = opening } }

    /// Has the parts review settings. A service without a review takes over everything.
    func review(_ settings: Settings<Own>) async -> SettingsReview {
        guard let review = self.state.withLock({ $0.review }) else { return SettingsReview() }
        return await review(settings)
    }

    /// Reads from Redis what the service needs to start; nil for a service that needs nothing.
    var opening: Opening? { self.state.withLock { $0.opening } }

    /// The number of changes that ask for another review.
    var changes: Int { self.state.withLock { $0.changes } }

    /// Reads the settings with `read` and asks for a decision, unless new parts were asked for: these are made with what was decided about.
    ///
    /// - Returns: the result of `read`; nil when it was not called.
    func change(_ read: () -> LiveSettings<Own>.Reload) -> LiveSettings<Own>.Reload? {
        let result = self.state.withLock { state -> LiveSettings<Own>.Reload? in
            guard state.reasons.isEmpty else { return nil }
            let result = read()
            if result == .taken { state.changes += 1 }
            return result
        }
        if result == .taken { self.look() }
        return result
    }

    /// Asks for a decision about the newest settings, which may have another result although they are the same.
    func look() { self.lookAsked.yield() }

    /// Asks for new parts, unless the settings have changed since they were decided about.
    ///
    /// - Parameters:
    ///   - reasons: the settings that have changed.
    ///   - change: the number of changes that were decided about.
    func request(_ reasons: [String], at change: Int) {
        let isRequested = self.state.withLock { state in
            guard state.changes == change else { return false }
            state.reasons += reasons
            return true
        }
        if isRequested { self.continuation.yield() }
    }

    /// True once new parts were asked for.
    var isRequested: Bool { self.state.withLock { !$0.reasons.isEmpty } }

    /// The service that ends, and with it the group, when new parts are asked for.
    var trigger: any Service { Trigger(requests: self.requests) }

    private struct Trigger: Service {
        let requests: AsyncStream<Void>

        func run() async throws {
            await cancelWhenGracefulShutdown {
                for await _ in self.requests { break }
            }
        }
    }
}
