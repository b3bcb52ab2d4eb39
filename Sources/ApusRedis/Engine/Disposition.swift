/// The consequence of a failure in handling a stream's entry or in writing its results. It is decided here for every error of Redis, and by the
/// other errors for themselves; no handler decides by an error's code.
///
/// No case means "send again", or "bury what others wrote": what was done is written again, and only the entry that failed is buried.
package enum Disposition: Hashable, Sendable {
    /// The next try removes the cause: the server is another one, or a stream's group is made again.
    case retryNow
    /// Redis, or the way to it, fails: the same is tried until it works. It says nothing against the entry, which keeps its
    /// deliveries.
    case retryLater
    /// This call was refused for an unknown reason: it is tried a limited number of times, then the entry is given back. Its deliveries count,
    /// and the last one buries it with a receipt.
    case giveBack
    /// The entry itself can never be handled, or its results never be written: it is buried with a receipt.
    case bury
    /// The task is cancelled: nothing more is tried here.
    case stop

    /// True when the failure says nothing against the entry that was handled.
    package var isOutage: Bool {
        switch self {
        case .retryNow, .retryLater: true
        case .giveBack, .bury, .stop: false
        }
    }
}
