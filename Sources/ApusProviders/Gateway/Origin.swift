package import ApusCore
package import ApusHTTP2

/// The host and port that connections are made to, and that a credential may be bound to (RFC 6454 §4). An app with several credentials has
/// connections of their own for each of them.
package struct Origin: Hashable, Sendable, CustomStringConvertible {
    /// The host in lower case.
    package let host: String
    /// The port.
    package let port: Int
    /// The index of the app's credential that is used there.
    package let credential: Int

    /// The origin as text, such as `https://push.example`; the port stands in it unless it is 443.
    package var text: String { "https://\(self.authority)" }
    /// The host, with the port unless it is 443.
    package var authority: String { WebAddress(host: self.host, port: self.port).authority }
    /// The origin as text.
    package var description: String { self.text }

    /// Creates an origin.
    package init(host: String, port: Int = WebAddress.securePort, credential: Int = 0) {
        self.host = host.lowercased()
        self.port = port
        self.credential = credential
    }
}

/// Describes a provider whose recipients each have an address of their own, as a gateway needs it.
package protocol RecipientAddressing: Sendable {
    /// Returns the origin of a recipient's address; nil when nothing may be sent there. It is called for each recipient,
    /// on the event loop.
    ///
    /// - Parameter recipient: the recipient as the store has it: its token, followed by its keys.
    func origin(of recipient: Span<UInt8>) -> Origin?
    /// Makes the request to one recipient. It may take long, so it is called on a thread of its own.
    ///
    /// - Parameters:
    ///   - message: the rendering that the provider keeps in ``PreparedMessage``.
    ///   - badge: the device's current badge; ignored unless the message counts badges.
    func request(_ message: any Sendable, to recipient: [UInt8], badge: UInt32) -> AddressedRequest
    /// Returns the credential of connections to an origin.
    func credential(for origin: Origin) -> any ProviderCredential
    /// Returns true when a host is known to exist: then it is a fault if it cannot be reached. Any other may be made up by whoever registers
    /// an address there.
    func exists(_ host: String) -> Bool
    /// Returns who names a host.
    func trust(in host: String) -> HostTrust
    /// The verdicts of push services on the credential.
    var verdicts: OriginVerdicts { get }
    /// The address to connect to instead of every origin's, such as a simulator's; nil for their own.
    var connectsTo: WebAddress? { get }
}

/// The trust in a host to which a recipient's address leads, by who names it.
package enum HostTrust: Hashable, Sendable {
    /// The operator: the host may lead to addresses that are not public.
    case named
    /// The provider, whose host it is.
    case known
    /// Anybody, by registering an address there.
    case unknown
}

/// A request to one recipient, or the reason why there is none.
package enum AddressedRequest: Sendable {
    /// The request, without its credential.
    case request(path: String, headers: [HeaderField], body: [UInt8])
    /// The recipient gets nothing, with the given outcome and reason.
    case refused(DeliveryOutcome, reason: String)
}
