package import ApusCore
package import ApusMessages
package import ApusRedis

/// A unit that comes back at a time.
package struct UnitRetry: Sendable {
    /// When, by the clock of the process that says so. What Redis is told is in how long.
    package var due: UnixMilliseconds
    /// Its name: the same name twice is one.
    package var id: String
    /// The unit.
    package var unit: WorkUnit

    /// A retry.
    package init(due: UnixMilliseconds, id: String, unit: WorkUnit) {
        self.due = due
        self.id = id
        self.unit = unit
    }

    /// Retries as fields of a call.
    struct Packed: Sendable {
        /// Milliseconds from the call on, by Redis' clock.
        var delays: [Int64]
        var ids: [String]
        var streams: [String]
        var units: [[UInt8]]
    }
}

extension UnitRetry.Packed {
    /// - Parameter now: the time by the clock that the retries' own times are of.
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

/// Units of work: their progress, and what waits for its time.
package struct Work: Sendable {
    let access: StreamAccess

    /// What a unit's owner learns when it reports.
    package struct Verdict: Hashable, Sendable {
        /// What the send wants of its units.
        package enum State: String, Hashable, Sendable {
            /// Go on.
            case running
            /// Send nothing more: an operator holds the send.
            case paused
            /// Close what is left: the send is stopped for good.
            case cancelled
            /// Close what is left: the provider refuses the message for every recipient.
            case refused
            /// Send nothing more: the send is complete without this unit.
            case done
            /// Stop: another owns the unit, or has reported in this one's place; nothing was written.
            case lost
        }

        /// What the send wants.
        package var state: State
        /// Recipients per second of the whole send; 0: as many as the route allows.
        package var ratePerSecond: UInt32
        /// What an earlier owner left; for `begin` only.
        package var journal: UnitJournal?
    }

    /// What a unit's owner does next.
    package enum NextStep: String, Sendable {
        /// Sends, if the verdict says so: nothing has gone out yet. The unit of a paused send is held at once.
        case begin
        /// Goes on.
        case `continue`
        /// Nothing: every recipient has its outcome or its retry.
        case finish
        /// Nothing more here: the unit is held if its send is paused, and goes back into its stream if not.
        case leave
    }

    /// A field of a send's message that a provider rejects, for the ledger.
    package struct MessageRejection: Hashable, Sendable {
        /// The field.
        package var field: String
        /// The provider.
        package var provider: Provider
        /// Whether every recipient that the reporter has sent to was refused for it: unless the ledger knows of one at this provider
        /// that was not, nobody else of the route is sent to.
        package var isByAll: Bool

        /// A rejected field.
        package init(field: String, provider: Provider, isByAll: Bool) {
            self.field = field
            self.provider = provider
            self.isByAll = isByAll
        }
    }

    /// Makes a unit's progress durable: bitmap, outcomes and retries together, or nothing. Without a journal it writes nothing.
    ///
    /// The same report twice, as after a lost answer, is written once.
    ///
    /// - Parameter now: the time by the clock that the retries' own times are of; nil only without retries.
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
            guard writes, answer[0].text != "lost" else { return nil }
            var repeated = report
            repeated.isRepeat = true
            return repeated
        }
        guard let state = Verdict.State(rawValue: answer[0].text) else {
            throw StreamError.unexpected(function: RecordProgressCall.function, answer: answer[0].text)
        }
        // Only who goes on sends to whom it has marked.
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
            ratePerSecond: UInt32(clamping: answer[1].number),
            journal: UnitJournal(encoded: answer[2].blob),
        )
    }

    /// Moves what is due to its streams; how many, and how long until the next (nil: none waits).
    package func moveDue(tag: HashTag) async throws -> (moved: Int, nextMilliseconds: Int64?) {
        let due = StreamKeys(tag: tag).due
        let call = MoveDueCall(keys: [due], limit: StreamLimits.dueBatchMax)
        let answer = try await self.access.call(call, on: tag) { answer in
            let moves = answer.children.dropFirst(2).map(\.text)
            return moves.isEmpty
                ? nil
                : RepeatMoveDueCall(
                    keys: [due],
                    ids: stride(from: 0, to: moves.count, by: 2).map { moves[$0] },
                    entries: stride(from: 1, to: moves.count, by: 2).map { moves[$0] },
                )
        }
        let moved = Int(answer[0].number)
        if moved > 0 {
            self.access.observer?.entriesRead(moved, stream: due)
            self.access.observer?.entriesAcknowledged(moved, stream: due)
        }
        let wait = answer[1].number
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
    /// Set to repeat the call after a failover.
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
