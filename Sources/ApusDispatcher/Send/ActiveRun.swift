internal import ApusCore
internal import ApusMessages
internal import NIOCore

/// A run's name on its worker.
struct RunToken: Sendable {
    let slot: Int
    let nonce: UInt64
}

/// What a run needs, gathered before it goes to its worker.
struct RunPlan: Sendable {
    let send: SendContext
    let context: RouteContext
    let lane: Lane
    /// The route on which the store has these devices; nil: this one. Their tokens were called bad there.
    var home: RouteContext?
    var table: RecipientTable
    /// What an earlier owner left: the bits of `UnitJournal`.
    var journal: [UInt8] = []
    /// From 1.
    var attempt: UInt32 = 1
    /// When the first try began; nil: with this one.
    var firstAttemptAt: UnixMilliseconds?
    /// Nanoseconds since 1970; 0: unknown.
    var publishedAtNanoseconds: Int64 = 0
    /// How what is open ends, if nothing more is to be sent: the send is cancelled, or the provider refuses its message; nil: it is
    /// sent to.
    var ending: (outcome: Outcome, reason: Reason)?
    /// How many recipients of the send the whole fleet may reach per second; 0: as many as can be.
    var ratePerSecond: Double
    /// Whether it reports only its end: a direct send, which has no journal.
    var reportsAtEnd = false
    /// Whether all were refused before because a third party behind the provider does not take our credential.
    var waitsForThirdPartyAuth = false
    /// When the entry was this process's for certain.
    var ownedAt = NIODeadline.now()
    /// When the reading of its recipients began.
    var readAt = NIODeadline.now()

    /// A run of a send at the rate that its publisher asked for.
    init(send: SendContext, context: RouteContext, lane: Lane, table: RecipientTable) {
        self.send = send
        self.context = context
        self.lane = lane
        self.table = table
        self.ratePerSecond = Double(send.command.ratePerSecond)
    }

    /// The route through the app's other environment at its provider, where tokens that this one calls bad are tried once; nil: the app has
    /// only one, or this is the second.
    var other: RouteContext? {
        let route = self.context.route
        guard self.home == nil,
            let environment = route.provider.traits.environments.first(where: { $0 != route.environment })
        else { return nil }
        return self.send.context(of: Route(app: route.app, provider: route.provider, environment: environment))
    }
}

/// How a worker works.
struct WorkerSettings: Sendable {
    /// How often progress is reported while there is some.
    var flushInterval: TimeAmount = .milliseconds(10)
    /// How often a run speaks up without progress.
    var heartbeat: TimeAmount = .seconds(1)
    /// How long an entry whose owner is silent stays its own.
    var lease: TimeAmount = .seconds(10)
    /// A run whose last report has been unwritten for so long sends nothing more until it is.
    var unwrittenTimeMax: TimeAmount = .milliseconds(500)
    /// Recipients of a route that may be unwritten at once.
    var window = 2_000
    /// Whoever was read longer ago is read again before they are sent to.
    var recheckAfter: TimeAmount = .seconds(2)
}

/// What a run reports to whoever writes it down.
struct RunUpdate: Sendable {
    var report: RunReport
    var retries: [(due: UnixMilliseconds, indices: [Int])]
    /// Recipients that wait for the third party behind the provider.
    var thirdPartyAuth: [(due: UnixMilliseconds, indices: [Int])] = []
    /// Recipients that are tried in the app's other environment.
    var elsewhere: [Int] = []
    /// Recipients that were never sent to and leave the run: of a direct send that could not go out.
    var unsent: [Int] = []
    /// Recipients to be read again before anybody else is sent to, for ``Worker/recheck(_:_:of:readAt:)``. There is nothing else in
    /// such an update.
    var recheck: [Int] = []
    /// What the journal is to hold.
    var bitmap: [UInt8]
    /// Whether other recipients are marked than before.
    var changesMarks = false
    /// What the provider says of the message itself, if it is news.
    var rejection: RejectionTracker.News?
    /// Whether it has somebody to send to, and its send's rate does not allow it.
    var waitsForPace = false
    /// Nothing is on the wire and nothing more will be sent.
    var isFinished: Bool
    /// Every recipient has its outcome or its retry.
    var isComplete: Bool

    /// Whether there is something to write.
    var isDirty: Bool {
        self.report.count > 0 || !self.retries.isEmpty || !self.thirdPartyAuth.isEmpty || !self.elsewhere.isEmpty
            || self.changesMarks
    }
}

/// A run on its worker.
final class ActiveRun {
    var run: RecipientRun
    let plan: RunPlan
    /// The trace that its latencies are shown with; nil: nobody records it.
    let recordedTrace: TraceID?
    let nonce = UInt64.random(in: .min ... .max)
    /// What its retries are spread by: one draw for all of them, so that they come back in few units.
    let draw = Double.random(in: 0..<1)
    let startedAt = NIODeadline.now()
    /// When its first request went out; nil: none has, or its end has been recorded.
    var firstSentAt: NIODeadline?
    /// Whether its wait for the first request has been recorded.
    var hasSent = false
    var slot = -1
    var isQueued = false
    /// Whether it waits for its send's pace.
    var isParked = false
    var waiter: EventLoopPromise<RunUpdate>?
    var waitingSince = NIODeadline.uptimeNanoseconds(0)
    /// When the last report was taken, to be written.
    private var reportTakenAt: NIODeadline
    /// When the entry was this process's for certain: the lease runs from then, or from later.
    private var ownedAt: NIODeadline
    /// Recipients that were answered and are in no report yet, and those that are in the report being written.
    var answered = 0
    var beingWritten = 0
    /// Recipients that were never sent to and leave the run.
    var unsent: [Int] = []
    /// Recipients to be read again; nil: nobody, or their reading is under way.
    var recheck: [Int]?
    /// The route that it goes by; nil: there is none.
    var route: RouteSender?
    /// The slot of it where it waits for its turn.
    var gatewaySlot: GatewaySlot?
    /// The pace of its send, if that has one.
    var pace: SendPace?

    init(run: RecipientRun, plan: RunPlan) {
        self.run = run
        self.plan = plan
        self.reportTakenAt = plan.ownedAt
        self.ownedAt = plan.ownedAt
        self.recordedTrace = plan.send.trace.flatMap { $0.isSampled ? $0.trace : nil }
    }

    /// Whether it may send nothing more before another report is written: the last one has been unwritten for long, because Redis
    /// is away; or the lease has run out unseen, because this process was frozen, and another may own the entry. A direct send, which
    /// writes only once, is given back then.
    func isHeldBack(now: NIODeadline, by settings: WorkerSettings) -> Bool {
        let isUnwritten =
            if self.plan.reportsAtEnd {
                now - self.startedAt >= Worker.directPatience
            } else {
                self.waiter == nil && now - self.reportTakenAt > settings.unwrittenTimeMax
            }
        return isUnwritten || now - self.ownedAt >= settings.lease
    }

    /// Moves what was answered into the report that is being written.
    func reportTaken(now: NIODeadline) {
        let waitsForCompany = self.run.deferred.count
        self.beingWritten += self.answered - waitsForCompany
        self.answered = waitsForCompany
        self.reportTakenAt = now
    }

    /// The report that was taken last is written, and the entry is still this process's.
    func reportWritten() {
        self.run.reportWritten()
        self.ownedAt = self.reportTakenAt
    }
}

/// Runs that go by one gateway and have something to send, by lane, in the order in which they get their turn.
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

    /// Whether a lane has anything to send.
    func hasAny(_ lane: Lane) -> Bool { self[lane].contains { $0.run.hasNext } }

    /// How many recipients of a lane wait to be sent to.
    func recipients(_ lane: Lane) -> Int { self[lane].reduce(0) { $0 + $1.run.unsentCount } }
}
