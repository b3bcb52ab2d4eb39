internal import ApusCore
internal import ApusMessages
internal import ApusProviders
internal import ApusStore

/// The sending of one table of recipients, as a pure machine: room and answers in, submissions and reports out.
///
/// It decides which recipient is next, what each answer means for the ledger, and what is tried again; it owns no connection and
/// no clock. Per accepted notification it sets a bit and adds to a counter: nothing is allocated.
struct RecipientRun: Sendable {
    /// What does not change while it runs.
    struct Terms: Sendable {
        var provider: Provider
        /// How the provider wants to be tried again.
        var retryRules: RetryRules
        /// Tries so far, this one included.
        var attempt: UInt32
        var expiresAt: UnixMilliseconds?
        /// When the first try began; nil: with this one.
        var firstAttemptAt: UnixMilliseconds?
        /// Whether every recipient's outcome is listed.
        var listsRecipients: Bool
        /// Whether nobody may be sent to twice, rather than nobody be left out.
        var isAtMostOnce = false
        /// Whether a token that this environment calls bad can be tried in the app's other one.
        var hasOtherEnvironment = false
        /// Whether this is that other environment: the store has these devices in the one that called their tokens bad.
        var isOtherEnvironment = false
        /// Whether a token can be tried with a message that is only checked.
        var canProbe = false
        /// How many variants the message has.
        var variants = 1
        /// Whether all were refused before because a third party behind the provider does not take our credential.
        var waitsForThirdPartyAuth = false
    }

    /// What an answer leads to.
    enum Consequence: Equatable, Sendable {
        /// The recipient has its outcome, or waits for its retry.
        case settled
        /// Send again at once: it was never looked at.
        case sendAgain
    }

    let terms: Terms
    /// As last read.
    var table: RecipientTable
    /// Until when the rows may be sent to as they are; nil: nothing of them stands in the store.
    var freshness: RecipientFreshness?
    /// Bits whose outcome or retry is in a report, given or to come.
    private(set) var done: DoneBitmap
    /// What was learnt since the last report.
    var report = RunReport()
    /// What waits for its retry and is in no report yet, by due second.
    var deferred: [Deferred] = []
    /// Recipients on the wire.
    var inFlight = 0
    /// When the oldest of `deferred` came in.
    var deferredSince: UnixMilliseconds?
    /// Who may have been sent to; nil: who is sent to twice gets the same again.
    private var marks: AtMostOnceWindow?
    var next = 0
    var again: [UInt32] = []
    private var isStopped = false
    /// How everybody ends who is not on the wire, and who comes back from there unseen; nil: they are sent to.
    private var ending: (outcome: Outcome, reason: Reason)?
    /// Whether anything more is sent.
    var isSending: Bool { !self.isStopped && self.ending == nil }
    /// Tokens that are being tried, because nobody said whether they are bad.
    var probes = RecipientProbes()
    /// What the provider says of the message itself.
    private var rejections: RejectionTracker
    /// Whether none of those who wait for the third party has been answered since: one asks for all.
    var isAskingThirdPartyAuth: Bool

    /// A recipient that is tried again, and why.
    struct Deferred: Equatable, Sendable {
        var index: Int
        var due: UnixMilliseconds
        var reason: Reason
        /// Whether it goes to the app's other environment.
        var isElsewhere = false
        /// Whether it waits until the third party behind the provider takes our credential.
        var isForThirdPartyAuth = false
    }

    /// A run over the zero bits of the journal.
    ///
    /// - Parameters:
    ///   - journal: as `takeReport` gave it: the done bits and, when nobody may be sent to twice, the marked ones.
    ///   - freshness: of the table; nil: nothing of it is read again.
    init(
        terms: Terms,
        table: RecipientTable,
        journal: [UInt8] = [],
        freshness: RecipientFreshness? = nil,
        now: UnixMilliseconds,
    ) {
        self.terms = terms
        self.table = table
        self.freshness = table.isOfDevices ? freshness : nil
        self.rejections = RejectionTracker(variants: terms.variants)
        self.isAskingThirdPartyAuth = terms.waitsForThirdPartyAuth
        self.done = DoneBitmap(count: table.rows.count, journal: journal)
        if terms.isAtMostOnce {
            let marked = DoneBitmap(
                count: table.rows.count,
                journal: Array(journal.dropFirst(DoneBitmap.byteCount(of: table.rows.count))),
            )
            for index in table.rows.indices where marked[index] && !self.done[index] {
                self.close(index, .failed, .unknown, now: now)
            }
            self.marks = AtMostOnceWindow()
        }
        for index in table.rows.indices where !self.done[index] { self.closeIfDecided(index, now: now) }
    }

    /// Ends a recipient of whom it is known without sending how they end.
    mutating func closeIfDecided(_ index: Int, now: UnixMilliseconds) {
        let (verdict, reason) = (self.table.rows[index].verdict, self.table.rows[index].verdictReason)
        guard verdict != .open else { return }
        if reason == .wrongEnvironment, self.terms.hasOtherEnvironment, !self.terms.isAtMostOnce {
            self.tryElsewhere(index, now: now)
        } else {
            self.close(index, verdict, reason, now: now)
        }
    }

    /// Whether nothing is left to send or to wait for.
    // Called on a value within a class it would be copied, with a count for each of its references, unless it is inlined.
    @inline(__always)
    var isFinished: Bool {
        self.inFlight == 0 && (self.done.setCount + self.deferred.count == self.done.count || self.isStopped)
    }

    /// How long a retry may wait for company in one unit before it is written.
    static let deferredMillisecondsMax: Int64 = 1_000

    /// Whether there is something that should be written by now.
    func isDue(now: UnixMilliseconds) -> Bool {
        self.report.count > 0 || self.deferredHasWaited(now: now)
            || (!self.isStopped && self.marks?.canMove(over: self.done) ?? false)
    }

    /// Rows before this may be sent to.
    private var sendableEnd: Int { self.marks?.durableEnd ?? self.table.rows.count }

    /// The recipient to send to next; nil: none is left, or none may be sent any more.
    mutating func takeNext() -> Int? {
        guard !self.isStopped, !self.isAwaitingThirdPartyAuth else { return nil }
        if let index = self.again.popLast() {
            self.inFlight += 1
            return Int(index)
        }
        let end = self.sendableEnd
        while self.next < end {
            let index = self.next
            self.next += 1
            guard self.isUnsent(index) else { continue }
            self.inFlight += 1
            return index
        }
        return nil
    }

    /// Of a row that `takeNext` has not come to: whether it is to be sent to from here.
    func isUnsent(_ index: Int) -> Bool { !self.done[index] && self.table.rows[index].verdict == .open }

    /// Puts back what `takeNext` gave: there was no room after all.
    mutating func putBack(_ index: Int) {
        precondition(self.inFlight > 0)
        self.inFlight -= 1
        self.again.append(UInt32(index))
    }

    /// A recipient that was on the wire is to be sent to again.
    private mutating func comesBack(_ index: Int) {
        self.again.append(UInt32(index))
        self.freshness?.recordReturn()
    }

    /// Whether anything waits to be sent.
    @inline(__always)
    var hasNext: Bool {
        !self.isStopped && !self.isAwaitingThirdPartyAuth && (!self.again.isEmpty || self.next < self.sendableEnd)
    }

    /// Whether one asks for all of them if the third party takes our credential again.
    private var isAwaitingThirdPartyAuth: Bool { self.isAskingThirdPartyAuth && self.inFlight > 0 }

    /// The last report is durable: what was marked in it may be sent to.
    mutating func reportWritten() { self.marks?.reportWritten() }

    /// How many wait to be sent, at most: some may be done already by an earlier owner.
    var unsentCount: Int { self.isStopped ? 0 : self.again.count + max(0, self.sendableEnd - self.next) }

    /// Takes out whoever has not been sent to: they are another's from now on, and have no outcome here.
    mutating func takeUnsent() -> [Int] {
        var unsent = self.again.map { Int($0) }
        self.again.removeAll()
        for index in self.next..<self.table.rows.count where self.isUnsent(index) { unsent.append(index) }
        self.next = self.table.rows.count
        for index in unsent { self.done.set(index) }
        return unsent.sorted()
    }

    /// What a provider says beside the outcome.
    struct Detail: Sendable {
        var reason: String = ""
        var id: String = ""
        /// HTTP status of the answer; 0: there was none.
        var status = 0
        /// When the request went out.
        var startedAt: UnixMilliseconds
        /// Whether the token was called invalid perhaps, or the message.
        var wantsTokenProbe = false
        /// The field of the message that the provider calls wrong for everybody; empty: none.
        var rejectedField = ""
    }

    /// The provider took it: the path of nearly all.
    mutating func accepted(_ index: Int, now: UnixMilliseconds) {
        self.leave(index)
        self.settle(index)
        self.probes.acceptedRecipient = index
        self.rejections.recordAccepted()
        self.isAskingThirdPartyAuth = false
        self.report.add(.accepted, .none, at: now)
    }

    /// Any answer, or the lack of one.
    mutating func answered(
        _ index: Int,
        _ outcome: DeliveryOutcome,
        detail: @autoclosure () -> Detail,
        now: UnixMilliseconds,
        draw: Double,
    ) -> Consequence {
        guard !self.probes.isProbe(index) else { return self.probeAnswered(index, outcome, detail(), now: now) }
        self.leave(index)
        if Self.showsThirdPartyAuth(outcome) { self.isAskingThirdPartyAuth = false }
        switch outcome {
        case .accepted:
            let said = detail()
            self.probes.acceptedRecipient = index
            self.rejections.recordAccepted()
            if self.terms.isOtherEnvironment, !self.table.rows[index].isEnvironmentKnown {
                // Feedback's guard decides whether the store believes it: a mistake of ours would look the same.
                self.report.suspects.append(self.verdict(index, .wrongEnvironment, asOf: said.startedAt, said))
            }
            self.close(index, .accepted, .none, now: now, detail: said)
        case .unregistered(let reason, let asOf):
            self.noteUnregistered(index, reason, asOf: asOf, detail(), now: now)
        case .suspect(let reason):
            if reason == .badToken, self.terms.hasOtherEnvironment, self.isDevice(index) {
                self.tryElsewhere(index, now: now)
                break
            }
            let said = detail()
            self.report.suspects.append(self.verdict(index, reason, asOf: said.startedAt, said))
            self.close(index, .rejected, reason, now: now, detail: said)
        case .rejected(let reason):
            let said = detail()
            if self.beginProbe(index, said) { return .sendAgain }
            self.rejections.record(said.rejectedField, variant: Int(self.table.rows[index].variant))
            self.close(index, .rejected, reason, now: now, detail: said)
        case .deferred(let deferral):
            if deferral.isFree, let ending = self.ending {
                self.close(index, ending.outcome, ending.reason, now: now)
                break
            }
            if deferral.isFree, !self.isStopped {
                self.comesBack(index)
                return .sendAgain
            }
            let said = detail()
            guard !self.terms.isAtMostOnce || deferral.isFree || Self.saysNotTaken(said.status) else {
                self.close(index, .failed, deferral.reason, now: now, detail: said)
                break
            }
            self.retry(index, outcome, deferral.reason, now, draw, said)
        case .misconfigured(.route), .misconfigured(.credential):
            // Nothing is wrong with the recipient: it waits in its unit until the route goes on, and that is no attempt.
            if let ending = self.ending {
                self.close(index, ending.outcome, ending.reason, now: now)
                break
            }
            if !self.isStopped { self.comesBack(index) }
            return .sendAgain
        case .misconfigured(.forbidden), .misconfigured(.unclear):
            self.close(index, .rejected, .credentials, now: now, detail: detail())
        case .misconfigured(.thirdPartyAuth):
            self.waitForThirdPartyAuth(index, now, draw)
        case .misconfigured(.staleCredential), .misconfigured(.renewedTooOften), .misconfigured(.wrongConnection):
            self.retry(index, outcome, .credentials, now, draw, detail())
        case .lost(let loss):
            let reason: Reason = loss == .timeout ? .timeout : .connection
            guard !self.terms.isAtMostOnce else {
                self.close(index, .failed, reason, now: now, detail: detail())
                break
            }
            self.retry(index, outcome, reason, now, draw, detail())
        }
        return .settled
    }

    /// Whether an answer of that status proves that the provider did not take the notification: it refused the request (4xx), or
    /// was not there for it (503). After any other trouble of its own it may have passed the notification on.
    private static func saysNotTaken(_ status: Int) -> Bool { (400..<500).contains(status) || status == 503 }

    /// Sends nothing more; what is not on the wire stays open for whoever takes the unit next.
    mutating func stop() { self.isStopped = true }

    /// Ends everything that is not on the wire with that outcome.
    mutating func closeRest(_ outcome: Outcome, _ reason: Reason, now: UnixMilliseconds) {
        self.abandonProbes(now: now)
        self.ending = (outcome, reason)
        self.again.sort()
        for index in self.again { self.close(Int(index), outcome, reason, now: now) }
        self.again.removeAll()
        while self.next < self.table.rows.count {
            if self.isUnsent(self.next) { self.close(self.next, outcome, reason, now: now) }
            self.next += 1
        }
        for waiting in self.deferred { self.close(waiting.index, outcome, reason, now: now) }
        self.deferred.removeAll()
    }

    /// What is to be written, in the form in which it is written.
    struct Taken: Sendable {
        var report: RunReport
        /// Retries grouped by their second; their bits count as done.
        var retries: [(due: UnixMilliseconds, indices: [Int])]
        /// Who waits for the third party behind the provider, grouped like the retries; their bits count as done, too.
        var thirdPartyAuth: [(due: UnixMilliseconds, indices: [Int])]
        /// Who is tried in the app's other environment, at once; their bits count as done, too.
        var elsewhere: [Int]
        /// Why they are tried again, one for each.
        var retryReasons: [Reason]
        /// The done bits and, while something marked may be on the wire, the marked ones.
        var bitmap: [UInt8]
        /// Whether other recipients are marked than in the report before.
        var changesMarks: Bool
        /// What the provider says of the message itself, if it is news.
        var rejection: RejectionTracker.News?
    }

    /// What is to be written now.
    ///
    /// Retries are held back until the run ends or the oldest has waited long enough for company, so that a storm makes few units.
    mutating func takeReport(now: UnixMilliseconds) -> Taken {
        var retries: [(due: UnixMilliseconds, indices: [Int])] = []
        var thirdPartyAuth: [(due: UnixMilliseconds, indices: [Int])] = []
        var elsewhere: [Int] = []
        var reasons: [Reason] = []
        if self.isFinished || self.deferredHasWaited(now: now) {
            for waiting in self.deferred {
                if waiting.isElsewhere { elsewhere.append(waiting.index) }
                self.settle(waiting.index)
                reasons.append(waiting.reason)
            }
            retries = Self.grouped(self.deferred.filter { !$0.isElsewhere && !$0.isForThirdPartyAuth }, now: now)
            thirdPartyAuth = Self.grouped(self.deferred.filter(\.isForThirdPartyAuth), now: now)
            self.deferred.removeAll(keepingCapacity: true)
            self.deferredSince = nil
        }
        let taken = self.report
        self.report.clear()
        var bitmap = self.done.journal
        var changesMarks = false
        if let marks = self.marks, self.isFinished {
            // Nothing is on the wire any more: what was marked and not sent to is as good as new.
            changesMarks = marks.open > 0
        } else if self.marks != nil {
            if !self.isStopped { changesMarks = self.marks?.move(over: self.done) ?? false }
            bitmap += DoneBitmap(count: self.done.count, setBefore: self.marks?.end ?? 0).journal
        }
        return Taken(
            report: taken,
            retries: retries,
            thirdPartyAuth: thirdPartyAuth,
            elsewhere: elsewhere.sorted(),
            retryReasons: reasons,
            bitmap: bitmap,
            changesMarks: changesMarks,
            rejection: self.rejections.takeNews(),
        )
    }

    private func deferredHasWaited(now: UnixMilliseconds) -> Bool {
        self.deferredSince.map { now.milliseconds(since: $0) >= Self.deferredMillisecondsMax } ?? false
    }

    private mutating func leave(_ index: Int) {
        precondition(self.inFlight > 0 && !self.done[index], "an answer for a recipient that is not on the wire")
        self.inFlight -= 1
    }

    /// The recipient has its outcome or its retry.
    private mutating func settle(_ index: Int) {
        guard self.done.set(index) else { return }
        self.marks?.close(index)
    }

    mutating func close(
        _ index: Int,
        _ outcome: Outcome,
        _ reason: Reason,
        now: UnixMilliseconds,
        detail said: Detail? = nil,
    ) {
        self.settle(index)
        self.report.add(outcome, reason, at: now)
        guard self.terms.listsRecipients else { return }
        var ended = RecipientOutcome(place: self.table.place(index), outcome: outcome, reason: reason, at: now)
        ended.device = self.table.device(index)
        ended.providerReason = (said?.reason ?? "").clipped(toBytes: Limits.providerTextBytesMax)
        ended.providerID = (said?.id ?? "").clipped(toBytes: Limits.providerTextBytesMax)
        self.report.recipients.append(ended)
    }

    private mutating func retry(
        _ index: Int,
        _ outcome: DeliveryOutcome,
        _ reason: Reason,
        _ now: UnixMilliseconds,
        _ draw: Double,
        _ said: Detail,
    ) {
        let decision = self.terms.retryRules.decide(
            outcome,
            attempt: self.terms.attempt,
            firstAttemptAt: self.terms.firstAttemptAt ?? said.startedAt,
            now: now,
            expiresAt: self.terms.expiresAt,
            draw: draw,
        )
        switch decision {
        case .retry(let notBefore):
            self.deferred.append(Deferred(index: index, due: notBefore, reason: reason))
            if self.deferredSince == nil { self.deferredSince = now }
        case .giveUp, nil: self.close(index, .failed, reason, now: now, detail: said)
        case .expire: self.close(index, .expired, .ttl, now: now, detail: said)
        }
    }

    /// Whether the row is a device of the store: a publisher who names an address names its environment, too.
    func isDevice(_ index: Int) -> Bool {
        self.table.rows[index].partition != RecipientTable.addressPartition
    }

    private mutating func tryElsewhere(_ index: Int, now: UnixMilliseconds) {
        self.deferred.append(Deferred(index: index, due: now, reason: .wrongEnvironment, isElsewhere: true))
        if self.deferredSince == nil { self.deferredSince = now }
    }

    /// How far a provider's clock may be ahead of ours; a time beyond that is no time.
    static let clockSkewMillisecondsMax: Int64 = 60_000

    mutating func noteUnregistered(
        _ index: Int,
        _ reason: Reason,
        asOf: UnixMilliseconds?,
        _ said: Detail,
        now: UnixMilliseconds,
    ) {
        let latest = now.advanced(byMilliseconds: Self.clockSkewMillisecondsMax)
        // A token registered since is alive: a time to come would say that it is not.
        let time = asOf.flatMap { $0 <= latest ? min($0, now) : nil } ?? said.startedAt
        self.report.unregistered.append(self.verdict(index, reason, asOf: time, said))
        self.close(index, .unregistered, reason, now: now, detail: said)
    }

    func verdict(_ index: Int, _ reason: Reason, asOf: UnixMilliseconds, _ said: Detail) -> TokenVerdict {
        TokenVerdict(
            place: self.table.place(index),
            tokenDigest: DeviceToken.digest(Array(self.table.token(index))),
            asOf: asOf,
            reason: reason,
            providerReason: said.reason.clipped(toBytes: Limits.providerTextBytesMax),
        )
    }
}
