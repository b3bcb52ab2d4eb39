package import ApusCore
package import ApusHTTP2
package import ApusProviders
package import NIOCore

/// Provides a client certificate as a credential: the handshake presents it, so requests carry no header. Apple ignores
/// `authorization` beside it
/// (https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns).
///
/// It does not look at the expiry: Apple's refusal stops the route for all dispatchers, and the clock of one of them must not.
package final class APNsCertificateCredential: ProviderCredential {
    private let certificate: APNsCertificate

    /// Creates the credential of a certificate.
    package init(_ certificate: APNsCertificate) { self.certificate = certificate }

    package func grant(on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        eventLoop.makeSucceededFuture(.connection)
    }

    /// Returns the grant again: there is no header that could be stale.
    package func rejected(_ header: HeaderValue, on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        self.grant(on: eventLoop)
    }

    /// Does nothing: a certificate is not renewed here.
    package func renewedTooOften() {}

    /// Does nothing: the same certificate is presented again.
    package func restored() {}

    package var expiresAt: UnixMilliseconds? { self.certificate.expiresAt }
}
