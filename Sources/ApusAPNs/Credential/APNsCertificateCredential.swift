package import ApusCore
package import ApusHTTP2
package import ApusProviders
package import NIOCore

/// Provides a client certificate as a credential: the handshake presents it, so requests carry no header. Apple ignores
/// `authorization` beside it
/// (https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns).
package final class APNsCertificateCredential: ProviderCredential {
    private let certificate: APNsCertificate
    private let clock: any WallClock

    /// Creates the credential of a certificate.
    package init(_ certificate: APNsCertificate, clock: any WallClock) {
        self.certificate = certificate
        self.clock = clock
    }

    package func grant(on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        let expiresAt = self.certificate.expiresAt
        guard self.clock.now() < expiresAt else {
            return eventLoop.makeSucceededFuture(.paused(detail: "the certificate has expired"))
        }
        return eventLoop.makeSucceededFuture(.connection(askAgainAt: expiresAt))
    }

    /// Returns the grant again: there is no header that could be stale.
    package func rejected(_ header: HeaderValue, on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        self.grant(on: eventLoop)
    }

    /// Does nothing: a certificate is not renewed here.
    package func renewedTooOften() {}

    /// Does nothing: the next grant checks the certificate anyway.
    package func restored() {}

    package var expiresAt: UnixMilliseconds? { self.certificate.expiresAt }
}
