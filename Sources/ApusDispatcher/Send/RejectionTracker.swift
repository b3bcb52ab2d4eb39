/// Tracks whether a provider rejects a message for itself, whomever it is for, so that its send ends before an audience is spent on it: a
/// pure machine of one run.
///
/// A field that is wrong once is noted; rejected so often that chance is out, in every variant, with nobody who took the message, it is
/// wrong for everybody: all recipients of a route share the message but for its variants. What is said of a token, or by a third party behind the
/// provider, counts for nothing here.
struct RejectionTracker: Sendable {
    /// Rejections with nobody who took the message, from which on it is wrong for everybody.
    static let rejectionsMin = 20

    /// What the ledger is to know.
    struct News: Equatable, Sendable {
        /// The field that was called wrong first.
        var field: String
        /// Whether everybody was refused.
        var isByAll: Bool
    }

    private var field = ""
    private var rejections = 0
    private var isAccepted = false
    private var reported: News?
    /// Variants that were not rejected yet.
    private var untried: Set<Int>

    /// - Parameter variants: how many the message has.
    init(variants: Int = 1) { self.untried = Set(0..<variants) }

    /// Records that somebody took the message.
    @inline(__always)
    mutating func recordAccepted() { self.isAccepted = true }

    /// Records that the provider rejected a variant for that field; empty: it named none.
    mutating func record(_ field: String, variant: Int = 0) {
        guard !field.isEmpty else { return }
        if !self.untried.isEmpty { self.untried.remove(variant) }
        if self.field.isEmpty { self.field = field }
        self.rejections += 1
    }

    /// What was not reported yet; nil: nothing is new.
    mutating func takeNews() -> News? {
        guard self.rejections > 0 else { return nil }
        let isForEverybody = !self.isAccepted && self.untried.isEmpty && self.rejections >= Self.rejectionsMin
        let isByAll = self.reported?.isByAll ?? false || isForEverybody
        let news = News(field: self.field, isByAll: isByAll)
        guard news != self.reported else { return nil }
        self.reported = news
        return news
    }
}
