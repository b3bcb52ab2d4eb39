internal import ApusCore
internal import Synchronization

/// Holds what a service's parts have opened, for the case that they fail: in the same process other parts are made then.
public final class OpenedResources: Sendable {
    private let closers = Mutex<[@Sendable () async -> Void]>([])

    /// Creates a holder of nothing.
    public init() {}

    /// Registers how something is closed, which may be closed already by then.
    public func add(_ close: @escaping @Sendable () async -> Void) { self.closers.withLock { $0.append(close) } }

    /// Closes everything, the last first.
    func close() async {
        let closers = self.closers.withLock { closers in
            defer { closers = [] }
            return closers
        }
        for close in closers.reversed() { await firstWithin(ShutdownLimits.closingMax) { await close() } }
    }
}
