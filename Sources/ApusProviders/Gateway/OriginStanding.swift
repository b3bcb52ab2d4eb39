/// The states of an origin to which recipients' addresses lead, as metrics count them.
package enum OriginStanding: Int, CaseIterable, Sendable, Hashable {
    /// Its requests are sent, or wait for room or for its first connection.
    case sending
    /// It was full and slow: until it answers, further requests are put off.
    case slow
    /// It rests: its requests are put off until the time that it asked for, or for a while.
    case resting
    /// There has been no connection for so long that its requests are put off.
    case unreachable
    /// It refuses the credential, which is not tried again yet.
    case refused
}
