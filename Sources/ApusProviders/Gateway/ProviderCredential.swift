package import ApusCore
package import ApusHTTP2
package import NIOCore

/// Gives the value of `authorization`. Shared by all event loops of a process; renews once, however many ask.
package protocol ProviderCredential: AnyObject, Sendable {
    /// What to send with now; waits while the first one is on its way.
    func grant(on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant>
    /// The provider called that header stale: what to send with instead.
    func rejected(_ header: HeaderValue, on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant>
    /// The provider says that there are too many new ones: none for a while.
    func renewedTooOften()
    /// Forgets refusals: the account, key or clock may have been corrected since.
    func restored()
    /// When what is sent with now expires; nil: there is nothing, or it does not.
    var expiresAt: UnixMilliseconds? { get }
}

/// What a credential has to give.
package enum CredentialGrant: Sendable {
    /// Send with it; from that time on there may be a successor to ask for.
    case usable(HeaderValue, askAgainAt: UnixMilliseconds)
    /// The connection itself says who we are: requests carry no header. Ask again then.
    case connection(askAgainAt: UnixMilliseconds)
    /// Nothing yet: hold requests, and ask again then.
    case unavailable(askAgainAt: UnixMilliseconds)
    /// Nothing until an operator has corrected it: requests would be refused.
    case paused(detail: String)
}
