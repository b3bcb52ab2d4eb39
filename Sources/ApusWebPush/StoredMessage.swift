package import ApusCore
package import ApusHTTP2

/// A message that a push service holds for a browser until it is delivered or expires, by the address that its acceptance gave.
///
/// Source: https://www.rfc-editor.org/rfc/rfc8030#section-7.2 and https://mozilla-services.github.io/autopush-rs
package struct StoredMessage: Hashable, Sendable {
    /// The host of the push service that deletes what it holds; the addresses of others are names only.
    package static let host = "updates.push.services.mozilla.com"

    /// The results of a recall.
    package enum Recall: Hashable, Sendable {
        /// The message was deleted before it was delivered.
        case recalled
        /// The message was delivered, or has expired.
        case gone
        /// The push service did not delete it, for the given reason.
        case refused(String)
    }

    /// The address.
    package let address: WebAddress

    /// Reads the address of a message; nil for one that cannot be recalled.
    package init?(_ location: String) {
        guard let address = WebAddress(https: location), address.host == Self.host, address.port == 443 else {
            return nil
        }
        self.address = address
    }

    /// Builds the request that deletes the message.
    package func deletion() throws(HTTP2Error) -> PlainRequest {
        try PlainRequest(
            method: "DELETE",
            authority: self.address.authority,
            path: self.address.path,
            headers: [HeaderField("ttl", "0")],
            body: [],
        )
    }

    /// Reads the answer to the request.
    package static func recall(status: Int) -> Recall {
        switch status {
        case 200...204: .recalled
        case 404, 410: .gone
        default: .refused("status \(status)")
        }
    }
}
