package import ApusCore
package import ApusHTTP2
internal import FoundationEssentials
package import NIOCore

/// Provides the value of `authorization`. It is shared by all event loops of a process and renews once, however many ask.
package protocol ProviderCredential: AnyObject, Sendable {
    /// Returns the current credential; waits while the first one is being fetched.
    func grant(on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant>
    /// Records that the provider has accepted a request. Each gateway tells of it once a minute at most, and after each refusal of a header.
    func accepted()
    /// Records that the provider called a header stale, and returns its successor; the same header if the provider has accepted it with others.
    func rejected(_ header: HeaderValue, on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant>
    /// Records that the provider has seen too many new credentials: none is created for a while.
    func renewedTooOften()
    /// Forgets refusals: the account, key or clock may have been corrected since.
    func restored()
    /// The expiry of the current credential; nil when there is none or it does not expire.
    var expiresAt: UnixMilliseconds? { get }
}

extension ProviderCredential {
    /// Does nothing.
    package func accepted() {}
}

/// The states of a credential.
package enum CredentialGrant: Sendable {
    /// The requests carry this header; from the given time on there may be a successor to ask for.
    case usable(HeaderValue, askAgainAt: UnixMilliseconds)
    /// The connection itself authenticates us: requests carry no header.
    case connection
    /// There is no credential yet: hold requests, and ask again at the given time. The detail says what failed; nil if nothing did, and
    /// it is only too early for another one.
    case unavailable(askAgainAt: UnixMilliseconds, detail: String?)
    /// An operator must correct the configuration: until then requests would be refused.
    case paused(detail: String)

    /// The words for a credential that its provider refuses for its time: the fault of this machine alone, for which no route pauses.
    package static let wrongClock = "the clock of \(ProcessInfo.processInfo.hostName) is wrong"
}

/// The wait of a gateway until it asks for its credential again.
///
/// It ends by the time of day or by the monotonic clock, whichever comes first: the time of day may be set back, which must not make the wait
/// longer, and the monotonic clock stands still while a machine sleeps. To ask early costs nothing, since the credential itself decides
/// whether there is anything to do.
struct CredentialWait: Hashable, Sendable {
    /// The maximum wait while there is no credential.
    static let unavailableMillisecondsMax: Int64 = 60_000
    /// The maximum wait while there is one.
    static let usableMillisecondsMax: Int64 = 86_400_000

    private let askAgainAt: UnixMilliseconds
    /// In nanoseconds of the monotonic clock.
    private let deadline: UInt64

    /// Creates a wait that begins now.
    ///
    /// - Parameters:
    ///   - askAgainAt: the time of day at which it ends.
    ///   - millisecondsMax: its maximum length.
    ///   - now: the time of day.
    ///   - uptime: nanoseconds of the monotonic clock.
    init(until askAgainAt: UnixMilliseconds, millisecondsMax: Int64, now: UnixMilliseconds, uptime: UInt64) {
        precondition((0...Self.usableMillisecondsMax).contains(millisecondsMax))
        self.askAgainAt = askAgainAt
        let wait = min(max(0, askAgainAt.milliseconds(since: now)), millisecondsMax)
        self.deadline = uptime &+ UInt64(wait) * 1_000_000
    }

    /// Returns true when it is time to ask again.
    func isOver(now: UnixMilliseconds, uptime: UInt64) -> Bool { uptime >= self.deadline || now >= self.askAgainAt }
}
