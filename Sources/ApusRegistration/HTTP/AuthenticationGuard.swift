internal import NIOCore
internal import Synchronization

/// Limits the failed authentications of each client address of this process. An address that has none costs a request nothing.
final class AuthenticationGuard: Sendable {
    /// Nil for no limit.
    private let limiter: Mutex<AuthenticationLimiter?>
    private let start = ContinuousClock.now

    /// - Parameter perMinute: the failures of one address in a minute; nil for no limit.
    init(perMinute: Int?) { self.limiter = Mutex(perMinute.map { AuthenticationLimiter(perMinute: $0) }) }

    private var now: Int64 { (ContinuousClock.now - self.start).nanoseconds }

    /// Returns the seconds after which a client may try again; nil when its address is not beyond the limit.
    func waitSeconds(of client: SocketAddress?) -> Int? {
        guard self.limiter.withLock({ $0?.hasFailures ?? false }), let address = AddressCounts.Address(client) else {
            return nil
        }
        let now = self.now
        let wait = self.limiter.withLock { $0?.wait(of: address, at: now) }
        return wait.map { Int(($0 + 999_999_999) / 1_000_000_000) }
    }

    /// Counts a failure of a client.
    func recordFailure(of client: SocketAddress?) {
        guard let address = AddressCounts.Address(client) else { return }
        let now = self.now
        self.limiter.withLock { $0?.recordFailure(of: address, at: now) }
    }

    /// Remembers that a token was accepted.
    func recordAcceptance(of token: UInt64) { self.limiter.withLock { $0?.recordAcceptance(of: token) } }

    /// Returns true when a token has been accepted before.
    func hasAccepted(_ token: UInt64) -> Bool { self.limiter.withLock { $0?.hasAccepted(token) ?? false } }
}
