package import ApusCore
package import ApusHTTP2
package import NIOCore

/// Provides the value of `authorization`. It is shared by all event loops of a process and renews once, however many ask.
package protocol ProviderCredential: AnyObject, Sendable {
    /// Returns the current credential; waits while the first one is being fetched.
    func grant(on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant>
    /// Records that the provider called a header stale, and returns its successor.
    func rejected(_ header: HeaderValue, on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant>
    /// Records that the provider has seen too many new credentials: none is created for a while.
    func renewedTooOften()
    /// Forgets refusals: the account, key or clock may have been corrected since.
    func restored()
    /// The expiry of the current credential; nil when there is none or it does not expire.
    var expiresAt: UnixMilliseconds? { get }
}

/// The states of a credential.
package enum CredentialGrant: Sendable {
    /// The requests carry this header; from the given time on there may be a successor to ask for.
    case usable(HeaderValue, askAgainAt: UnixMilliseconds)
    /// The connection itself authenticates us: requests carry no header. Ask again at the given time.
    case connection(askAgainAt: UnixMilliseconds)
    /// There is no credential yet: hold requests, and ask again at the given time. The detail says what failed; nil if nothing did, and
    /// it is only too early for another one.
    case unavailable(askAgainAt: UnixMilliseconds, detail: String?)
    /// An operator must correct the configuration: until then requests would be refused.
    case paused(detail: String)
}
