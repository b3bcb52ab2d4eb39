internal import ApusCore
internal import ApusMessages
internal import ApusRedis
internal import NIOCore

/// Identifies a run on its worker.
struct RunToken: Sendable {
    let slot: Int
    let nonce: UInt64
}

/// The input of a run, gathered before the run goes to its worker.
struct RunPlan: Sendable {
    let send: SendContext
    let context: RouteContext
    let lane: Lane
    /// The route under which the store has these devices, where their tokens were called bad; nil for this one.
    var storedRoute: RouteContext?
    var table: RecipientTable
    /// The journal of an earlier owner: the bits of `UnitJournal`.
    var journal: [UInt8] = []
    /// The number of this attempt, from 1.
    var attempt: UInt32 = 1
    /// The start of the first attempt; nil if it is this one.
    var firstAttemptAt: UnixMilliseconds?
    /// The publication time in nanoseconds since 1970; 0 if unknown.
    var publishedAtNanoseconds: Int64 = 0
    /// The outcome of the open recipients if nothing more is to be sent, because the send is cancelled or the provider
    /// rejects its message; nil if they are sent to.
    var ending: (outcome: Outcome, reason: Reason)?
    /// The maximum number of recipients of the send that the whole fleet may reach per second; 0 for no limit.
    var ratePerSecond: Double
    /// True when the run reports only its end: a direct send, which has no journal.
    var reportsAtEnd = false
    /// True when all recipients were refused before because a third party behind the provider does not accept our
    /// credential.
    var waitsForThirdPartyAuth = false
    /// The last time at which the entry certainly belonged to this process.
    var ownedAt = NIODeadline.now()
    /// The time at which reading the recipients' records began.
    var readAt = NIODeadline.now()
    /// The Redis server that takes its reports; nil when it makes none before its end, or when the server is not known.
    var server: RedisEndpoint?

    /// Creates a plan with the rate that the publisher asked for.
    init(send: SendContext, context: RouteContext, lane: Lane, table: RecipientTable) {
        self.send = send
        self.context = context
        self.lane = lane
        self.table = table
        self.ratePerSecond = Double(send.command.ratePerSecond)
    }

    /// The route of the app's other environment at the provider, where tokens that this route calls bad are tried once;
    /// nil if the app has only one environment, or if this is already the second.
    var other: RouteContext? {
        let route = self.context.route
        guard self.storedRoute == nil,
            let environment = route.provider.traits.environments.first(where: { $0 != route.environment })
        else { return nil }
        return self.send.context(of: Route(app: route.app, provider: route.provider, environment: environment))
    }

    /// True when devices that the store has in the wrong environment are sent to in the other one.
    var triesElsewhere: Bool { self.other != nil && self.send.command.delivery != .atMostOnce }
}

/// The intervals and limits of a worker.
struct WorkerSettings: Sendable {
    /// The interval at which progress is reported.
    var flushInterval: TimeAmount = .milliseconds(10)
    /// The interval at which a run reports without progress.
    var heartbeat: TimeAmount = .seconds(1)
    /// The time for which an entry stays with an owner that is silent.
    var lease: TimeAmount = .seconds(10)
    /// The maximum time for which a run's last report may be unwritten. After that, the run sends nothing until the
    /// report is written.
    var unwrittenTimeMax: TimeAmount = .milliseconds(500)
    /// The maximum number of unwritten recipients of a route.
    var window = 2_000
    /// The maximum age of a recipient's record when it is sent to. Older records are read again first.
    var recheckAfter: TimeAmount = .seconds(2)

    /// Returns the time for which the recipients of a send may be sent to before they are looked at again. With them the message of one that
    /// expires is rendered again, so the maximum age of a rendering counts as well.
    func validity(of send: SendContext) -> TimeAmount {
        guard send.expiresAt != nil else { return self.recheckAfter }
        return min(self.recheckAfter, .milliseconds(SendContextCache.ageMillisecondsMax))
    }
}

/// A report of a run to the task that writes it.
struct RunUpdate: Sendable {
    var report: RunReport
    var retries: [(due: UnixMilliseconds, indices: [Int])]
    /// The recipients that were put off before there was a request.
    var putOff: [(due: UnixMilliseconds, indices: [Int])] = []
    /// The recipients that wait for the third party behind the provider.
    var thirdPartyAuth: [(due: UnixMilliseconds, indices: [Int])] = []
    /// The recipients that wait for the run's subroute.
    var subroute: [(due: UnixMilliseconds, indices: [Int])] = []
    /// The recipients that are tried in the app's other environment.
    var elsewhere: [Int] = []
    /// The recipients that leave the run without having been sent to, because a direct send could not be sent.
    var unsent: [Int] = []
    /// The recipients to read again before any other is sent to, for ``Worker/recheck(_:_:of:readAt:rendered:)``. Such an update
    /// contains nothing else.
    var recheck: [Int] = []
    /// The new content of the journal.
    var bitmap: [UInt8]
    /// True when the marked recipients have changed.
    var changesMarks = false
    /// The provider's rejection of the message itself, if it has not been reported.
    var rejection: RejectionTracker.News?
    /// True when recipients wait for the send's own rate.
    var waitsForSendRate = false
    /// True when nothing is in flight and nothing more will be sent.
    var isFinished: Bool
    /// True when every recipient has its outcome or its retry.
    var isComplete: Bool

    /// True when there is something to write.
    var isDirty: Bool {
        self.report.count > 0 || !self.retries.isEmpty || !self.thirdPartyAuth.isEmpty || !self.subroute.isEmpty
            || !self.elsewhere.isEmpty || !self.putOff.isEmpty || self.changesMarks
    }

    /// True when nobody has got the message, or may have: each recipient was skipped, or waits until the provider takes it.
    var isUnsent: Bool { self.retries.isEmpty && self.report.hasOnlySkipped }
}

/// A run on its worker.
final class ActiveRun {
    var run: RecipientRun
    let plan: RunPlan
    /// The rendering whose messages are sent. It is newer than the plan's when the run has stood still.
    var rendered: RouteContext
    /// The trace that is recorded as an exemplar of its latencies; nil if it is not sampled.
    let recordedTrace: TraceID?
    let nonce: UInt64
    /// The random number that spreads its retries: one for all of them, so that they form few units.
    let draw: Double
    let startedAt = NIODeadline.now()
    /// The time of its first request; nil if there was none, or after its end has been recorded.
    var firstSentAt: NIODeadline?
    /// True when the wait for the first request has been recorded.
    var hasSent = false
    var slot = -1
    var isQueued = false
    /// The time at which its turn in sending began; nil while it waits for one.
    var turnBeganAt: NIODeadline?
    /// True when its route counts it among its direct sends under way.
    var isAmongDirectRuns = false
    /// True while it waits for its send's rate.
    var isParked = false
    var waiter: CheckedContinuation<RunUpdate, any Error>?
    var waitingSince = NIODeadline.uptimeNanoseconds(0)
    /// The reports of all runs that go to the same server; nil when it makes none before its end.
    var reports: ServerReports?
    /// True while a report of it waits to be written.
    private var hasReport = false
    /// True when its reports are not written any more, because Redis refuses them.
    var isAbandoned = false
    /// The time at which the last report was taken.
    private var reportTakenAt: NIODeadline
    /// The last time at which the entry certainly belonged to this process. The lease counts from it.
    private var ownedAt: NIODeadline
    /// The recipients that were answered and are in no report yet, and those in the report that is being written.
    var answered = 0
    var beingWritten = 0
    /// The recipients that leave the run without having been sent to.
    var unsent: [Int] = []
    /// The recipients to read again; nil if there are none, or while they are being read.
    var recheck: [Int]?
    /// The sender of its route; nil if the route has none.
    var route: RouteSender?
    /// The gateway slot of the route where it waits for its turn.
    var gatewaySlot: GatewaySlot?
    /// The trial of its message; nil if its provider names no rejected fields.
    var trial: SharedTrial?
    /// True when the report that is being written says that the message is rejected for every recipient.
    var hasReportedRejection = false
    /// The rate limit of its send; nil if the send has no rate of its own.
    var sendRateLimit: SendRateLimit?

    /// - Parameters:
    ///   - nonce: a number that no other run of the worker has.
    ///   - draw: a random number in 0..<1.
    init(run: consuming RecipientRun, plan: RunPlan, nonce: UInt64, draw: Double) {
        self.nonce = nonce
        self.draw = draw
        self.run = run
        self.plan = plan
        self.rendered = plan.context
        self.reportTakenAt = plan.ownedAt
        self.ownedAt = plan.ownedAt
        self.recordedTrace = plan.send.trace.flatMap { $0.isSampled ? $0.trace : nil }
    }

    /// Returns true when the run may send nothing before another report is written.
    ///
    /// This is so when its last report has been unwritten for long, or all those that go to the same server, because Redis
    /// does not answer, or when its lease has run out, because this process was frozen and another may own the entry; and when its route
    /// was paused after its last report: meanwhile its send may have been cancelled. A direct send, which writes only once, is given back
    /// in this case.
    func isHeldBack(now: NIODeadline, by settings: WorkerSettings) -> Bool {
        let isUnwritten =
            if self.plan.reportsAtEnd {
                now - self.startedAt >= Worker.directPatience
            } else {
                self.waiter == nil && now - self.reportTakenAt > settings.unwrittenTimeMax
            }
        return isUnwritten || self.reports?.isSilent(now: now, for: settings.unwrittenTimeMax) == true
            || now - self.ownedAt >= settings.lease || self.ownedAt < self.route?.resumedAt ?? .uptimeNanoseconds(0)
    }

    /// Moves the answered recipients into the report that is being written.
    func reportTaken(now: NIODeadline) {
        let waitsForCompany = self.run.deferred.count(where: \.isAnswered)
        self.beingWritten += self.answered - waitsForCompany
        self.answered = waitsForCompany
        self.reportTakenAt = now
        self.hasReport = true
        self.reports?.taken(now: now)
    }

    /// Records that the last report is written, so that the entry still belongs to this process.
    func reportWritten(now: NIODeadline) {
        self.run.reportWritten()
        self.ownedAt = self.reportTakenAt
        self.endReport(now: now)
    }

    /// Records that the last report, if there was one, waits no more to be written.
    func endReport(now: NIODeadline) {
        guard self.hasReport else { return }
        self.hasReport = false
        if self.isAbandoned { self.reports?.givenUp() } else { self.reports?.written(now: now) }
    }
}

/// A queue of the runs that wait to send through one gateway, by lane.
struct WaitingRuns {
    private var express: [ActiveRun] = []
    private var bulk: [ActiveRun] = []

    private subscript(_ lane: Lane) -> [ActiveRun] {
        _read {
            switch lane {
            case .express: yield self.express
            case .bulk: yield self.bulk
            }
        }
        _modify {
            switch lane {
            case .express: yield &self.express
            case .bulk: yield &self.bulk
            }
        }
    }

    mutating func append(_ active: ActiveRun) { self[active.plan.lane].append(active) }

    mutating func putFirst(_ active: ActiveRun) { self[active.plan.lane].insert(active, at: 0) }

    mutating func takeFirst(_ lane: Lane) -> ActiveRun? { self[lane].isEmpty ? nil : self[lane].removeFirst() }

    mutating func remove(_ active: ActiveRun) { self[active.plan.lane].removeAll { $0 === active } }

    /// Returns true when a lane has anything to send.
    func hasAny(_ lane: Lane) -> Bool { self[lane].contains { $0.run.hasNext } }

    /// Returns the number of recipients of a lane that wait to be sent to.
    func recipients(_ lane: Lane) -> Int { self[lane].reduce(0) { $0 + $1.run.unsentCount } }
}

/// The results of a run since its last report, in the form in which they are written.
struct RunReport: Sendable {
    /// The number of outcomes of each kind and reason that came: few, mostly one, so they are searched from the first.
    private var cells: [Cell] = []
    /// The tokens that the provider called unregistered.
    var unregistered: [TokenVerdict] = []
    /// The tokens that the provider called bad.
    var suspects: [TokenVerdict] = []
    /// The tokens for which a message was refused although the provider may mean the token, and those accepted after that.
    var refusals: [TokenVerdict] = []
    /// The outcome of each recipient, if the send lists its recipients.
    var recipients: [RecipientOutcome] = []
    /// The times of the first and the last outcome.
    var firstAt: UnixMilliseconds?
    var lastAt: UnixMilliseconds?
    /// The number of outcomes.
    private(set) var count = 0

    private struct Cell {
        var outcome: Outcome
        var reason: Reason
        var count: UInt64
    }

    /// Counts one outcome.
    mutating func add(_ outcome: Outcome, _ reason: Reason, at now: UnixMilliseconds) {
        precondition(outcome != .open)
        if let index = self.cells.firstIndex(where: { $0.outcome == outcome && $0.reason == reason }) {
            self.cells[index].count += 1
        } else {
            self.cells.append(Cell(outcome: outcome, reason: reason, count: 1))
        }
        self.count += 1
        if self.firstAt == nil { self.firstAt = now }
        self.lastAt = now
    }

    /// Removes everything, but keeps the memory.
    mutating func clear() {
        self.cells.removeAll(keepingCapacity: true)
        self.unregistered.removeAll(keepingCapacity: true)
        self.suspects.removeAll(keepingCapacity: true)
        self.refusals.removeAll(keepingCapacity: true)
        self.recipients.removeAll(keepingCapacity: true)
        self.firstAt = nil
        self.lastAt = nil
        self.count = 0
    }

    /// True when no recipient has another outcome than that it was skipped.
    var hasOnlySkipped: Bool { self.cells.allSatisfy { $0.outcome == .skipped } }

    /// Returns the counts by outcome and reason, in their order.
    func counts(provider: Provider) -> [OutcomeCount] {
        self.cells.sorted { ($0.outcome.rawValue, $0.reason.rawValue) < ($1.outcome.rawValue, $1.reason.rawValue) }
            .map { OutcomeCount(provider: provider, outcome: $0.outcome, reason: $0.reason, count: $0.count) }
    }
}
