internal import ApusCore
internal import ApusMessages
internal import ApusProviders
internal import ApusStore

/// Sends to one table of recipients, as a pure state machine: takes room and answers, and gives submissions and reports.
///
/// It decides which recipient is next, what each answer means for the ledger, and what is retried. It owns no connection and no clock. For
/// each accepted notification it sets a bit and adds to a counter, and allocates nothing.
struct RecipientRun: ~Copyable, Sendable {
    /// The parameters that do not change during a run.
    struct Terms: Sendable {
        var provider: Provider
        /// The provider's rules for retries.
        var retryRules: RetryRules
        /// The number of attempts so far, including this one.
        var attempt: UInt32
        var expiresAt: UnixMilliseconds?
        /// The start of the first attempt; nil if it is this one.
        var firstAttemptAt: UnixMilliseconds?
        /// True when every recipient's outcome is listed.
        var listsRecipients: Bool
        /// True for at-most-once delivery: a recipient is rather left out than sent to twice.
        var isAtMostOnce = false
        /// True when a token that this environment calls bad can be tried in the app's other one.
        var hasOtherEnvironment = false
        /// True when this is that other environment. The store has these devices in the one that called their tokens bad.
        var isOtherEnvironment = false
        /// True when a token can be tested with a message that the provider only checks.
        var canProbe = false
        /// The number of the message's variants.
        var variants = 1
        /// True when all recipients were refused before because a third party behind the provider does not accept our credential.
        var waitsForThirdPartyAuth = false
    }

    /// The consequence of an answer.
    enum Consequence: Equatable, Sendable {
        /// The recipient has its outcome, or waits for its retry.
        case settled
        /// The recipient has no outcome yet: it is sent to again or waits for a probe, and no longer counts as unwritten.
        case sendAgain
    }

    let terms: Terms
    /// The recipients, as last read.
    var table: RecipientTable
    /// The age of the rows and of the message; nil when neither changes: for addresses of a send without an expiry.
    var freshness: RecipientFreshness?
    /// The recipients whose outcome or retry is in a report, or will be in the next one.
    private(set) var done: DoneBitmap
    /// The results since the last report.
    var report = RunReport()
    /// The recipients that wait for a retry and are in no report yet.
    var deferred: [Deferred] = []
    /// The number of requests in flight.
    var inFlight = 0
    /// The time of the oldest entry of `deferred`.
    var deferredSince: UnixMilliseconds?
    /// The recipients that may have been sent to; nil for at-least-once delivery.
    private var marks: AtMostOnceWindow?
    var next = 0
    var again: [UInt32] = []
    private var isStopped = false
    /// The outcome of all recipients that are not in flight, and of those that would be sent to again; nil while they are sent to.
    private var ending: (outcome: Outcome, reason: Reason)?
    /// True while more is sent.
    var isSending: Bool { !self.isStopped && self.ending == nil }
    /// The tests of tokens that may be bad.
    var probes = RecipientProbes()
    /// The provider's rejections of the message itself.
    private var rejections: RejectionTracker
    /// True while none of the recipients that wait for the third party has been answered. Only one of them is sent to at a time, on behalf
    /// of all.
    var isAskingThirdPartyAuth: Bool

    /// True while the provider is asked whether it accepts the run's subroute again. Only one recipient is sent to at a time.
    var isAskingSubroute = false

    /// A recipient that is tried again.
    struct Deferred: Equatable, Sendable {
        /// The event that it waits for.
        enum Cause: Equatable, Sendable {
            /// The message is sent again.
            case retry
            /// The message is sent after all: it was put off before there was a request.
            case unsent
            /// An attempt in the app's other environment.
            case elsewhere
            /// The third party behind the provider, which does not accept our credential.
            case thirdPartyAuth
            /// The run's subroute, which the provider refuses.
            case subroute
        }

        var index: Int
        var due: UnixMilliseconds
        var reason: Reason
        var cause = Cause.retry
        /// True when it was answered, and counts as unwritten.
        var isAnswered = true
    }

    /// Creates a run over the zero bits of a journal.
    ///
    /// - Parameters:
    ///   - journal: the bitmap of the last `takeReport`: the done bits and, for at-most-once delivery, the marked ones.
    ///   - freshness: the age of the table; nil if nothing is read or rendered again.
    init(
        terms: Terms,
        table: RecipientTable,
        journal: [UInt8] = [],
        freshness: RecipientFreshness? = nil,
        now: UnixMilliseconds,
    ) {
        self.terms = terms
        self.table = table
        // Of addresses nothing is read, but their message may contain what is left until its expiry.
        self.freshness = table.isOfDevices || terms.expiresAt != nil ? freshness : nil
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

    /// Ends a recipient whose outcome is known without sending.
    mutating func closeIfDecided(_ index: Int, now: UnixMilliseconds) {
        let (verdict, reason) = (self.table.rows[index].verdict, self.table.rows[index].verdictReason)
        guard verdict != .open else { return }
        if reason == .wrongEnvironment, self.terms.hasOtherEnvironment, !self.terms.isAtMostOnce {
            self.tryElsewhere(index, isAnswered: false, now: now)
        } else {
            self.close(index, verdict, reason, now: now)
        }
    }

    /// True when nothing is left to send or to wait for.
    // Inlining avoids a copy of the struct, with reference counting, when it is read from a property of a class.
    @inline(__always)
    var isFinished: Bool {
        self.inFlight == 0 && (self.done.setCount + self.deferred.count == self.done.count || self.isStopped)
    }

    /// The maximum time for which a retry waits for others of its unit before it is written.
    static let deferredMillisecondsMax: Int64 = 1_000

    /// Returns true when there is something that should be written now.
    func isDue(now: UnixMilliseconds) -> Bool {
        self.report.count > 0 || self.deferredHasWaited(now: now)
            || (!self.isStopped && self.marks?.canMove(over: self.done) ?? false)
    }

    /// The end of the rows that may be sent to.
    private var sendableEnd: Int { self.marks?.durableEnd ?? self.table.rows.count }

    /// Returns the recipient to send to next; nil if none is left, or none may be sent to now. A recipient whose record is too old is
    /// never returned.
    ///
    /// - Parameter now: nanoseconds of the monotonic clock.
    mutating func takeNext(now: UInt64) -> Int? {
        guard !self.isStopped, !self.isAwaitingAnswerForAll else { return nil }
        if let last = self.again.last {
            guard !self.isStale(now: now) else { return nil }
            self.again.removeLast()
            self.inFlight += 1
            return Int(last)
        }
        let end = self.sendableEnd
        while self.next < end {
            let index = self.next
            guard self.isUnsent(index) else {
                self.next += 1
                continue
            }
            if let freshness, freshness.isStale(index, now: now) { return nil }
            self.next += 1
            self.inFlight += 1
            return index
        }
        return nil
    }

    /// Returns true when a row that `takeNext` has not reached is still to be sent to.
    func isUnsent(_ index: Int) -> Bool { !self.done[index] && self.table.rows[index].verdict == .open }

    /// Puts back a recipient of `takeNext` for which there was no room.
    mutating func putBack(_ index: Int) {
        precondition(self.inFlight > 0)
        self.inFlight -= 1
        self.again.append(UInt32(index))
    }

    /// Queues a recipient again whose request is answered without an outcome.
    private mutating func comesBack(_ index: Int) {
        self.again.append(UInt32(index))
        self.freshness?.recordReturn()
    }

    /// True when a recipient waits to be sent to.
    @inline(__always)
    var hasNext: Bool {
        !self.isStopped && !self.isAwaitingAnswerForAll && (!self.again.isEmpty || self.next < self.sendableEnd)
    }

    /// True while the answer is awaited that one recipient gets on behalf of all.
    private var isAwaitingAnswerForAll: Bool {
        (self.isAskingThirdPartyAuth || self.isAskingSubroute) && self.inFlight > 0
    }

    /// Records that the last report is durable. The recipients marked in it may be sent to.
    mutating func reportWritten() { self.marks?.reportWritten() }

    /// The maximum number of recipients that wait to be sent to. Some of them may have been done by an earlier owner.
    var unsentCount: Int { self.isStopped ? 0 : self.again.count + max(0, self.sendableEnd - self.next) }

    /// Removes the recipients that have not been sent to. They get no outcome from this run.
    mutating func takeUnsent() -> [Int] {
        var unsent = self.again.map { Int($0) }
        self.again.removeAll()
        for index in self.next..<self.table.rows.count where self.isUnsent(index) { unsent.append(index) }
        self.next = self.table.rows.count
        for index in unsent { self.done.set(index) }
        return unsent.sorted()
    }

    /// The details of an answer besides its outcome.
    struct Detail: Sendable {
        var reason: String = ""
        var id: String = ""
        /// The HTTP status of the answer; 0 if there was none.
        var status = 0
        /// False when there was no request.
        var wasSent = true
        /// The time of the request.
        var startedAt: UnixMilliseconds
        /// True when the provider called something invalid that may be the token or the message.
        var wantsTokenProbe = false
        /// The field of the message that the provider rejects; empty if there is none.
        var rejectedField = ""
        /// True when it rejects the field on one platform alone.
        var isOfOnePlatform = false
    }

    /// Records that the provider accepted a notification.
    mutating func accepted(_ index: Int, now: UnixMilliseconds) {
        self.leave(index)
        self.settle(index)
        self.probes.acceptedRecipient = index
        self.rejections.recordAccepted()
        self.isAskingThirdPartyAuth = false
        self.report.add(.accepted, .none, at: now)
    }

    /// Records any answer, or the absence of one.
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
                // The guard in the feedback service decides whether the store adopts it, because a mistake of ours would look the same.
                self.report.suspects.append(self.verdict(index, .wrongEnvironment, asOf: said.startedAt, said))
            }
            if self.table.rows[index].wasRefused {
                self.report.refusals.append(self.verdict(index, .none, asOf: said.startedAt, said))
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
            if said.wantsTokenProbe, !self.terms.canProbe, self.isDevice(index) {
                let refused = DeviceRecord.Suspicion.refusedMessage
                self.report.refusals.append(self.verdict(index, refused, asOf: said.startedAt, said))
            }
            let variant = Int(self.table.rows[index].variant)
            self.rejections.record(said.rejectedField, isOfOnePlatform: said.isOfOnePlatform, variant: variant)
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
            let mayBeTaken = said.wasSent && !deferral.isFree && !Self.saysNotTaken(said.status)
            guard !self.terms.isAtMostOnce || !mayBeTaken else {
                self.close(index, .failed, deferral.reason, now: now, detail: said)
                break
            }
            self.retry(index, outcome, deferral.reason, now, draw, said)
        case .misconfigured(.route), .misconfigured(.subroute), .misconfigured(.credential):
            // The recipient is not at fault: it waits until the route or subroute is restored, and this counts as no attempt.
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

    /// Returns true when a status proves that the provider did not take the notification: it refused the request (4xx), or was unavailable
    /// (503). After any other failure of its own it may have passed the notification on.
    private static func saysNotTaken(_ status: Int) -> Bool { (400..<500).contains(status) || status == 503 }

    /// Records that the message is rejected for every recipient, as the runs of its send on this event loop together show.
    mutating func messageRejected(_ field: String) { self.rejections.recordRejectedByAll(field) }

    /// Stops sending. Recipients that are not in flight stay open for the next owner of the unit.
    mutating func stop() { self.isStopped = true }

    /// Ends all recipients that are not in flight with the given outcome.
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

    /// The contents of a report, in the form in which they are written.
    struct Taken: Sendable {
        var report: RunReport
        /// The retries grouped by the second in which they are due. Their bits count as done.
        var retries: [(due: UnixMilliseconds, indices: [Int])]
        /// The recipients that were put off before there was a request, grouped likewise. Their bits count as done.
        var unsent: [(due: UnixMilliseconds, indices: [Int])]
        /// The recipients that wait for the third party behind the provider, grouped like the retries. Their bits count as done.
        var thirdPartyAuth: [(due: UnixMilliseconds, indices: [Int])]
        /// The recipients that wait for the run's subroute, grouped likewise. Their bits count as done.
        var subroute: [(due: UnixMilliseconds, indices: [Int])]
        /// The recipients that are tried at once in the app's other environment. Their bits count as done.
        var elsewhere: [Int]
        /// The reasons of the retries, one per recipient.
        var retryReasons: [Reason]
        /// The done bits and, while something marked may be in flight, the marked ones.
        var bitmap: [UInt8]
        /// True when the marked recipients differ from those of the last report.
        var changesMarks: Bool
        /// The provider's rejection of the message itself, if it has not been reported.
        var rejection: RejectionTracker.News?
    }

    /// Takes everything that is to be written now.
    ///
    /// Retries are held back until the run ends or the oldest has waited for `deferredMillisecondsMax`, so that many failures make few
    /// units.
    mutating func takeReport(now: UnixMilliseconds) -> Taken {
        var retries: [(due: UnixMilliseconds, indices: [Int])] = []
        var unsent: [(due: UnixMilliseconds, indices: [Int])] = []
        var thirdPartyAuth: [(due: UnixMilliseconds, indices: [Int])] = []
        var subroute: [(due: UnixMilliseconds, indices: [Int])] = []
        var elsewhere: [Int] = []
        var reasons: [Reason] = []
        if self.isFinished || self.deferredHasWaited(now: now) {
            for waiting in self.deferred {
                self.settle(waiting.index)
                reasons.append(waiting.reason)
            }
            let waiting = Dictionary(grouping: self.deferred, by: \.cause)
            retries = Self.grouped(waiting[.retry] ?? [], now: now)
            unsent = Self.grouped(waiting[.unsent] ?? [], now: now)
            thirdPartyAuth = Self.grouped(waiting[.thirdPartyAuth] ?? [], now: now)
            subroute = Self.grouped(waiting[.subroute] ?? [], now: now)
            elsewhere = (waiting[.elsewhere] ?? []).map(\.index)
            self.deferred.removeAll(keepingCapacity: true)
            self.deferredSince = nil
        }
        let taken = self.report
        self.report.clear()
        var bitmap = self.done.journal
        var changesMarks = false
        if let marks = self.marks, self.isFinished {
            // Nothing is in flight any more: the marks of recipients that were not sent to are dropped.
            changesMarks = marks.open > 0
        } else if self.marks != nil {
            if !self.isStopped { changesMarks = self.marks?.move(over: self.done) ?? false }
            bitmap += DoneBitmap(count: self.done.count, setBefore: self.marks?.end ?? 0).journal
        }
        return Taken(
            report: taken,
            retries: retries,
            unsent: unsent,
            thirdPartyAuth: thirdPartyAuth,
            subroute: subroute,
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

    /// Records that a recipient has its outcome or its retry.
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
        ended.providerID = (said?.id ?? "").clipped(toBytes: Limits.providerIDBytesMax)
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
            attempt: said.wasSent ? self.terms.attempt : min(self.terms.attempt, Self.unsentAttemptsMax),
            firstAttemptAt: self.terms.firstAttemptAt ?? said.startedAt,
            now: now,
            expiresAt: self.terms.expiresAt,
            draw: draw,
        )
        switch decision {
        case .retry(let notBefore):
            let cause = said.wasSent ? Deferred.Cause.retry : .unsent
            self.wait(Deferred(index: index, due: notBefore, reason: reason, cause: cause), now: now)
        case .giveUp, nil: self.close(index, .failed, reason, now: now, detail: said)
        case .expire: self.close(index, .expired, .ttl, now: now, detail: said)
        }
    }

    /// Returns true when a row is a device of the store. Addresses are not, and their publisher has named the environment.
    func isDevice(_ index: Int) -> Bool {
        self.table.rows[index].partition != RecipientTable.addressPartition
    }

    private mutating func tryElsewhere(_ index: Int, isAnswered: Bool = true, now: UnixMilliseconds) {
        self.wait(
            Deferred(index: index, due: now, reason: .wrongEnvironment, cause: .elsewhere, isAnswered: isAnswered),
            now: now
        )
    }

    mutating func wait(_ waiting: Deferred, now: UnixMilliseconds) {
        self.deferred.append(waiting)
        if self.deferredSince == nil { self.deferredSince = now }
    }

    /// The maximum time by which a provider's clock may be ahead of ours. A time beyond it is ignored.
    static let clockSkewMillisecondsMax: Int64 = 60_000

    mutating func noteUnregistered(
        _ index: Int,
        _ reason: Reason,
        asOf: UnixMilliseconds?,
        _ said: Detail,
        now: UnixMilliseconds,
    ) {
        let latest = now.advanced(byMilliseconds: Self.clockSkewMillisecondsMax)
        // The time is not in the future, because a token registered since then is alive.
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
