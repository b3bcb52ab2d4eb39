package import ApusCore
package import ApusMessages
package import ApusRedis

/// Holds a unit that is to be tried again at a later time.
package struct UnitRetry: Sendable {
    /// The due time by the clock of this process. Redis is told the delay until then.
    package var due: UnixMilliseconds
    /// The id under which the retry is stored; the same id twice is one retry.
    package var id: String
    /// The unit.
    package var unit: WorkUnit

    /// Creates a retry.
    package init(due: UnixMilliseconds, id: String, unit: WorkUnit) {
        self.due = due
        self.id = id
        self.unit = unit
    }

    /// The retries as fields of a call.
    struct Packed: Sendable {
        /// The milliseconds from the call until each is due, by Redis' clock.
        var delays: [Int64]
        var ids: [String]
        var streams: [String]
        var units: [[UInt8]]
    }
}

extension UnitRetry.Packed {
    /// - Parameter now: the time by the clock that the due times are of.
    init(_ retries: [UnitRetry], now: UnixMilliseconds) throws {
        self.init(
            delays: retries.map { max(0, $0.due.milliseconds(since: now)) },
            ids: retries.map(\.id),
            streams: retries.map { StreamKeys.workName($0.unit.route, $0.unit.lane) },
            units: try retries.map { try $0.unit.encode() },
        )
    }
}

extension CallFields {
    /// Sets the fields `retry_delays_ms`, `retry_ids` and `retry_streams`.
    mutating func setTimes(of retries: UnitRetry.Packed) {
        self.set("retry_delays_ms", retries.delays, default: [])
        self.set("retry_ids", retries.ids, default: [])
        self.set("retry_streams", retries.streams, default: [])
    }
}

/// Manages units of work: their progress, and what is scheduled.
package struct Work: Sendable {
    let access: StreamAccess

    /// The answer to a unit's owner when it reports.
    package struct Verdict: Hashable, Sendable {
        /// The state that the send requires of its units.
        package enum State: String, Hashable, Sendable {
            /// The unit continues.
            case running
            /// Nothing more is sent: an operator holds the send.
            case paused
            /// The remaining recipients are closed: the send is cancelled.
            case cancelled
            /// The remaining recipients are closed: the provider refuses the message for every recipient.
            case refused
            /// Nothing more is sent: the send is complete without this unit.
            case done
            /// The caller stops: another owns the unit or has reported in its place. Nothing was written.
            case lost
        }

        /// The state that the send requires.
        package var state: State
        /// The recipients per second of the whole send; 0 for as many as the route allows.
        package var ratePerSecond: UInt32
        /// The journal of an earlier owner, for `begin` only.
        package var journal: UnitJournal?
    }

    /// The next step of a unit's owner after a report.
    package enum NextStep: String, Sendable {
        /// The owner sends if the verdict allows it; nothing has gone out yet. The unit of a paused send is held at once.
        case begin
        /// The owner continues.
        case `continue`
        /// The unit is done: every recipient has its outcome or its retry.
        case finish
        /// The owner leaves the unit, which is held if its send is paused, else goes back into its stream.
        case leave
    }

    /// Names a field of a send's message that a provider rejects, for the ledger.
    package struct MessageRejection: Hashable, Sendable {
        /// The field.
        package var field: String
        /// The provider.
        package var provider: Provider
        /// True when every recipient that the reporter has sent to was refused for the field. Unless the ledger knows an accepted one at
        /// this provider, nobody else of the route is sent to.
        package var isByAll: Bool

        /// Creates a rejected field.
        package init(field: String, provider: Provider, isByAll: Bool) {
            self.field = field
            self.provider = provider
            self.isByAll = isByAll
        }
    }

    /// Makes a unit's progress durable: bitmap, outcomes and retries together, or nothing. Without a journal it writes nothing.
    ///
    /// A report that is repeated, as after a lost answer, is written once.
    ///
    /// - Parameter now: the time by the clock that the due times of retries are of; nil only without retries.
    package func record(
        _ entry: StreamEntry,
        of send: SendKey,
        by consumer: StreamConsumer,
        tag: HashTag,
        journal: UnitJournal?,
        outcomes: OutcomeBatch? = nil,
        retries: [UnitRetry] = [],
        now: UnixMilliseconds? = nil,
        rejection: MessageRejection? = nil,
        next: NextStep,
    ) async throws -> Verdict {
        precondition(journal != nil || (outcomes == nil && retries.isEmpty), "a report that is written has a number")
        precondition(now != nil || retries.isEmpty, "retries need the time that theirs are relative to")
        var call = RecordProgressCall(
            keys: [entry.stream, StreamKeys(tag: tag).send(send)],
            consumer: consumer,
            entry: entry.id,
            journal: journal?.encoded ?? [],
            outcomes: try outcomes?.encode() ?? [],
            nextStep: next.rawValue,
            retries: try UnitRetry.Packed(retries, now: now ?? UnixMilliseconds(0)),
        )
        if let rejection {
            call.rejectedField = rejection.field
            let accepted = OutcomeCount(provider: rejection.provider, outcome: .accepted, reason: .none, count: 0)
            call.acceptedCount = rejection.isByAll ? SendLedger.field(accepted) : ""
        }
        let report = call
        let writes = journal != nil || next == .finish || next == .leave
        let answer = try await self.access.call(report, on: tag, about: entry.name) { answer in
            guard writes, answer[0].string != "lost" else { return nil }
            var repeated = report
            repeated.isRepeat = true
            return repeated
        }
        guard let state = Verdict.State(rawValue: try answer[0].text()) else {
            throw StreamError.unexpected(function: RecordProgressCall.function, answer: try answer[0].text())
        }
        // Only an owner that continues sends to the recipients that it has marked.
        if journal != nil, next == .continue, state == .running { try await self.access.confirm(tag) }
        let isGone =
            switch next {
            case .finish, .leave: state != .lost
            case .begin: state == .paused
            case .continue: false
            }
        if isGone { self.access.observer?.entriesAcknowledged(1, stream: entry.stream) }
        return Verdict(
            state: state,
            ratePerSecond: UInt32(clamping: try answer[1].number()),
            journal: UnitJournal(encoded: try answer[2].blob()),
        )
    }

    /// Moves due messages to their streams; returns how many, and the time until there is more to do (nil when nothing is known of).
    package func moveDue(tag: HashTag) async throws -> (moved: Int, nextMilliseconds: Int64?) {
        let due = StreamKeys(tag: tag).due
        let call = MoveDueCall(keys: [due], limit: StreamLimits.dueBatchMax)
        let answer = try await self.access.call(call, on: tag) { answer in
            guard let moves = try? answer.texts(from: 2), !moves.isEmpty else { return nil }
            return RepeatMoveDueCall(
                keys: [due],
                ids: stride(from: 0, to: moves.count, by: 2).map { moves[$0] },
                entries: stride(from: 1, to: moves.count, by: 2).map { moves[$0] },
            )
        }
        let moved = Int(try answer[0].number())
        if moved > 0 {
            self.access.observer?.entriesRead(moved, stream: due)
            self.access.observer?.entriesAcknowledged(moved, stream: due)
        }
        let wait = try answer[1].number()
        return (moved, wait < 0 ? nil : wait)
    }
}

struct RecordProgressCall: OwnerCall {
    static let function = "apus2_record_progress"
    var keys: [String]
    var consumer: StreamConsumer
    var entry: String
    var journal: [UInt8]
    var outcomes: [UInt8]
    var nextStep: String
    /// True when the call is repeated after a failover.
    var isRepeat = false
    var retries: UnitRetry.Packed
    var rejectedField = ""
    var acceptedCount = ""

    func set(_ fields: inout CallFields) {
        fields.set(self.consumer)
        fields.set("entry", self.entry)
        fields.set("journal", CallBytes(self.journal), default: [])
        fields.set("outcomes", CallBytes(self.outcomes), default: [])
        fields.set("next_step", self.nextStep)
        fields.set("is_repeat", self.isRepeat, default: false)
        fields.setTimes(of: self.retries)
        fields.setBulk("retry_units", self.retries.units)
        fields.set("rejected_field", self.rejectedField, default: "")
        fields.set("accepted_count", self.acceptedCount, default: "")
    }
}

struct MoveDueCall: FunctionCall {
    static let function = "apus2_move_due"
    var keys: [String]
    var limit: Int

    func set(_ fields: inout CallFields) {
        fields.set("limit", self.limit)
    }
}

struct RepeatMoveDueCall: RestoringCall {
    static let function = "apus2_repeat_move_due"
    var keys: [String]
    var ids: [String]
    var entries: [String]

    func set(_ fields: inout CallFields) {
        fields.set("ids", self.ids)
        fields.set("entries", self.entries)
    }
}
