/// Tells when a provider refuses a message for itself, whomever it is for, so that its send ends before an audience is spent on it: a
/// pure machine of one run.
///
/// A field that is wrong once is noted; refused so often that chance is out, in every variant, with nobody who took the message, it is
/// wrong for everybody: all recipients of a route share the message but for its variants. What Apple says to FCM, or anybody says of a token, counts for
/// nothing here. Google: a request with a wrong field must be mended, not sent again
/// (https://firebase.google.com/docs/cloud-messaging/error-codes).
struct MessageBlame: Sendable {
    /// Refusals with nobody who took the message, from which on it is wrong for everybody.
    static let refusalsMin = 20

    /// What the ledger is to know.
    struct News: Equatable, Sendable {
        /// The field that was blamed first.
        var field: String
        /// Whether everybody was refused.
        var isByAll: Bool
    }

    private var field = ""
    private var refusals = 0
    private var hasTaker = false
    private var told: News?
    /// Variants that nobody was refused yet.
    private var untried: Set<Int>

    /// - Parameter variants: how many the message has.
    init(variants: Int = 1) { self.untried = Set(0..<variants) }

    /// Somebody took the message.
    @inline(__always)
    mutating func heardGood() { self.hasTaker = true }

    /// The provider refused a variant of it, and blamed that field; empty: it blamed none.
    mutating func heard(_ field: String, variant: Int = 0) {
        guard !field.isEmpty else { return }
        if !self.untried.isEmpty { self.untried.remove(variant) }
        if self.field.isEmpty { self.field = field }
        self.refusals += 1
    }

    /// What was not told yet; nil: nothing is new.
    mutating func takeNews() -> News? {
        guard self.refusals > 0 else { return nil }
        let isForEverybody = !self.hasTaker && self.untried.isEmpty && self.refusals >= Self.refusalsMin
        let isByAll = self.told?.isByAll ?? false || isForEverybody
        let news = News(field: self.field, isByAll: isByAll)
        guard news != self.told else { return nil }
        self.told = news
        return news
    }
}
