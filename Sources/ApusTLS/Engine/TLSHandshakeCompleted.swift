/// What both ends agreed on.
///
/// ``TLSHandler`` fires it as a user inbound event, before the first plaintext.
package struct TLSHandshakeCompleted: Sendable {
    /// The application protocol (`h2`, `http/1.1`); nil if none was asked for.
    package let alpn: String?
    /// `TLSv1.3` or `TLSv1.2`.
    package let version: String
    /// On a server, the name that the client asked for.
    package let serverName: String?
    /// The peer's own certificate, verified; on a server nil if the client showed none.
    package let peerCertificate: Certificate?
}
