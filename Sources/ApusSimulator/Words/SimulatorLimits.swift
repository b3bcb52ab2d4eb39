/// The sizes that the simulator keeps to, whatever a client does.
package enum SimulatorLimits {
    /// Bytes of a request's body. Above every provider's own limit, so that "too large" is answered and not cut off; a
    /// batch of 1,000 tokens for a topic is the longest.
    package static let requestBodyBytesMax = 256 * 1_024
    /// Bytes of a request's header block, compressed.
    package static let headerBlockBytesMax = 32 * 1_024
    /// Bytes of a body sent to the control listener: some hundred thousand declared tokens.
    package static let controlBodyBytesMax = 16 * 1_024 * 1_024
    /// Nesting of a payload's JSON.
    package static let payloadDepthMax = 32
    /// Bytes of a send's key kept in the ledger.
    package static let sendBytesMax = 64
    /// Scripts that wait for their requests.
    package static let scriptsMax = 1_000
    /// Verified provider tokens remembered per connection; a good client shows one an hour.
    package static let providerTokensMax = 8
    /// Bytes of a provider's JWT or a service account's assertion.
    package static let jwtBytesMax = 8 * 1_024
}
