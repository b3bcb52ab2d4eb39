/// Detects that a provider rejects a message regardless of its recipient, so that its send ends before a whole audience
/// fails. A pure state machine of one run.
///
/// One rejected field is only noted. The message is wrong for every recipient when it was rejected often enough to
/// exclude chance, in every variant, and was never accepted: all recipients of a route share the message except for its
/// variants. Rejections on one platform are noted and do not count, because the provider may accept the message on others. Rejections of a
/// token, or by a third party behind the provider, are not even noted.
struct RejectionTracker: Sendable {
    /// The minimum number of rejections, without any acceptance, from which the message is wrong for every recipient.
    static let rejectionsMin = 20

    /// A rejection that the ledger is to record.
    struct News: Equatable, Sendable {
        /// The first field that was called wrong.
        var field: String
        /// True when the message is rejected for every recipient.
        var isByAll: Bool
    }

    private var field = ""
    private var rejections = 0
    private var isAccepted = false
    private var reported: News?
    /// The variants that have not been rejected.
    private var untried: Set<Int>

    /// Creates a tracker.
    ///
    /// - Parameter variants: the number of the message's variants.
    init(variants: Int = 1) { self.untried = Set(0..<variants) }

    /// Records that the provider accepted the message for a recipient.
    @inline(__always)
    mutating func recordAccepted() { self.isAccepted = true }

    /// Records that the provider rejected a variant because of a field; an empty field is ignored.
    mutating func record(_ field: String, isOfOnePlatform: Bool = false, variant: Int = 0) {
        guard !field.isEmpty else { return }
        if self.field.isEmpty { self.field = field }
        guard !isOfOnePlatform else { return }
        if !self.untried.isEmpty { self.untried.remove(variant) }
        self.rejections += 1
    }

    /// Records that other runs have shown the message to be wrong for every recipient.
    mutating func recordRejectedByAll(_ field: String) {
        if self.field.isEmpty { self.field = field }
        self.rejections = max(self.rejections, Self.rejectionsMin)
        self.untried = []
    }

    /// Returns the rejection if it has not been reported; nil if nothing has changed.
    mutating func takeNews() -> News? {
        guard !self.field.isEmpty else { return nil }
        let isForEverybody = !self.isAccepted && self.untried.isEmpty && self.rejections >= Self.rejectionsMin
        let isByAll = self.reported?.isByAll ?? false || isForEverybody
        let news = News(field: self.field, isByAll: isByAll)
        guard news != self.reported else { return nil }
        self.reported = news
        return news
    }
}
