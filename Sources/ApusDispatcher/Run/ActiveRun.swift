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
    let table: RecipientTable
    /// Bits that an earlier owner left.
    var journal: [UInt8] = []
    /// From 1.
    var attempt: UInt32 = 1
    /// When the first try began; nil: with this one.
    var firstAttemptAt: UnixMilliseconds?
    /// Nanoseconds since 1970; 0: unknown.
    var publishedAtNanoseconds: Int64 = 0
    /// Whether it tells only of its end: a direct send, which has no journal.
    var reportsAtEnd = false
}

/// What a run tells whoever writes it down.
struct RunUpdate: Sendable {
    var report: RunReport
    var retries: [(due: UnixMilliseconds, indices: [Int])]
    var bitmap: [UInt8]
    /// Nothing is on the wire and nothing more will be sent.
    var isFinished: Bool
    /// Every recipient has its outcome or its retry.
    var isComplete: Bool

    /// Whether there is something to write.
    var isDirty: Bool { self.report.count > 0 || !self.retries.isEmpty }
}

/// A run on its worker.
final class ActiveRun {
    var run: RecipientRun
    let plan: RunPlan
    let nonce = UInt64.random(in: .min ... .max)
    var slot = -1
    var isQueued = false
    var waiter: EventLoopPromise<RunUpdate>?
    var waitingSince = NIODeadline.uptimeNanoseconds(0)

    init(run: RecipientRun, plan: RunPlan) {
        self.run = run
        self.plan = plan
    }
}

/// The runs of one route that have something to send, by lane, in the order in which they get their turn.
struct WaitingRuns {
    private var express: [ActiveRun] = []
    private var bulk: [ActiveRun] = []

    mutating func append(_ active: ActiveRun) {
        switch active.plan.lane {
        case .express: self.express.append(active)
        case .bulk: self.bulk.append(active)
        }
    }

    mutating func takeFirst(_ lane: Lane) -> ActiveRun? {
        switch lane {
        case .express: self.express.isEmpty ? nil : self.express.removeFirst()
        case .bulk: self.bulk.isEmpty ? nil : self.bulk.removeFirst()
        }
    }
}
