/// What follows a failure in handling a stream's entry or in writing its results. It is decided here for every error of Redis, and by the
/// other errors for themselves; nobody decides by a code of his own.
///
/// No case means "send again", or "bury what others wrote": what was done is written again, and only the entry that failed is buried.
package enum Disposition: Hashable, Sendable {
    /// The cause is mended by the next try: the server is another one, or a stream's group is made again.
    case retryNow
    /// Redis, or the way to it, is in trouble: the same is tried until that is over. It says nothing against the entry, which keeps its
    /// deliveries.
    case retryLater
    /// This call was refused, and nobody knows why: it is tried a limited number of times, then the entry is given back. Its deliveries count,
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
