/// What is to be done about a request.
package struct Ruling: Sendable {
    /// What happens to its stream.
    package enum Action: Hashable, Sendable {
        /// It is answered.
        case answer(ProviderAnswer)
        /// Half of the answer's body comes, and then nothing more.
        case half(ProviderAnswer)
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
    /// How GOAWAY follows; nil: it does not.
    package var goAway: GoAwayForm?
    /// Whether GOAWAY follows.
    package var isLast: Bool { self.goAway != nil }
    /// How many requests at a time the client may send from now on; nil: nothing changes, or it is opened.
    package var streamsMax: UInt32?
    /// Whether from now on the client may send several requests at a time.
    package var opensStreams = false
}
