/// What is to be done about a request.
package struct Ruling: Sendable {
    /// What happens to its stream.
    package enum Action: Hashable, Sendable {
        /// It is answered.
        case answer(ProviderAnswer)
        /// It never is.
        case silence
        /// REFUSED_STREAM.
        case refuse
        /// The connection breaks.
        case drop
    }

    /// What happens to its stream.
    package var action: Action
    /// How long an answer waits.
    package var delayMicroseconds: Int64 = 0
    /// Whether GOAWAY follows, with this stream as the last.
    package var isLast = false
    /// Whether from now on the client may send several requests at a time.
    package var opensStreams = false
}
