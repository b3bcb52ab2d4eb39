internal import ServiceLifecycle
internal import Synchronization

/// Ends a service's parts so that they are made anew with the changed settings, in the same process.
///
/// It is for whatever cannot change while it runs, such as the list of routes or a listening address. The parts end as at a shutdown: what
/// is on its way ends, and the rest is handed back, so that nothing is lost or repeated.
public final class Renewal<Own: ServiceSettings>: Sendable {
    private struct State {
        var reasons: [String] = []
        var check: (@Sendable (Settings<Own>) throws -> Void)?
    }

    /// False where nobody makes the parts anew: then changes wait for the next start.
    public let isPossible: Bool
    private let state = Mutex(State())
    private let requests: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    init(isPossible: Bool) {
        self.isPossible = isPossible
        (self.requests, self.continuation) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Sets the check that settings must pass before the parts end for them: it reads the files that they name.
    public func setCheck(_ check: @escaping @Sendable (Settings<Own>) throws -> Void) {
        self.state.withLock { $0.check = check }
    }

    /// Tests whether the service could start with the settings, as far as its check can tell.
    ///
    /// - Throws: the reason why it could not.
    func check(_ settings: Settings<Own>) throws {
        try self.state.withLock { $0.check }?(settings)
    }

    /// Asks for new parts.
    ///
    /// - Parameter reasons: the settings that have changed.
    /// - Returns: false where that is not possible.
    @discardableResult
    public func request(_ reasons: [String]) -> Bool {
        guard self.isPossible else { return false }
        self.state.withLock { $0.reasons += reasons }
        self.continuation.yield()
        return true
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
