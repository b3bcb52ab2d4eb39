package import ApusCore
package import ApusMessages
package import ApusRedis

extension SendStreams {
    /// One step of a route's plan.
    package struct PlanStep: Sendable {
        /// What the cursor must still be.
        package var expected: String
        /// What it becomes.
        package var next: String
        /// What is appended, all for the plan's route and one lane.
        package var units: [WorkUnit] = []
        /// Recipients found that no unit carries, because their outcome is in `outcomes`.
        package var plannedBesides: UInt64 = 0
        /// Outcomes that come with this step. What it says beside its counts also tells of the plan's end.
        package var outcomes: OutcomeBatch
        /// Whether nobody more is to be found.
        package var isLast = false
        /// Whether that is because the message has lost its worth.
        package var isExpired = false

        /// A step that appends nothing yet.
        package init(from expected: String, to next: String, outcomes: OutcomeBatch) {
            self.expected = expected
            self.next = next
            self.outcomes = outcomes
        }
    }

    /// What became of a step.
    package enum StepResult: Hashable, Sendable {
        /// Done.
        case ok
        /// Another has this plan now: stop.
        case lost
        /// Another step was taken from here: go on from that cursor.
        case moved(cursor: String)
        /// The route has enough units waiting: come back.
        case full
        /// The send, which has a rate of its own, has enough units waiting: come back.
        case paced
        /// An operator holds the send; its plan waits with its units.
        case paused
        /// The send was cancelled; the plan is over.
        case cancelled
    }

    /// Appends units and moves the cursor together, or does nothing.
    package func fanstep(
        _ step: PlanStep,
        send: String,
        entry: StreamEntry,
        by consumer: StreamConsumer,
        tag: HashTag,
    ) async throws -> StepResult {
        precondition(step.units.count <= StreamLimits.unitsPerStepMax)
        let work = step.units.first.map { StreamKeys.workName($0.route, $0.lane) } ?? ""
        precondition(step.units.allSatisfy { StreamKeys.workName($0.route, $0.lane) == work }, "units of one stream")
        precondition(step.isLast || !step.isExpired)
        let standing = step.isExpired ? "expired" : step.isLast ? "complete" : ""
        var end = step.outcomes
        end.counts = []
        let tells = step.isLast || !step.outcomes.counts.isEmpty
        var arguments: [RedisArgument] = [
            .text(consumer.group), .text(consumer.name), .text(entry.id), .text(step.expected), .text(step.next),
            .bytes(tells ? try step.outcomes.encode() : []), .text(standing),
            .integer(Int64(step.plannedBesides)), .bytes(try end.encode()), .text(work),
            .integer(Int64(step.units.count)),
        ]
        let first = arguments.count
        for unit in step.units {
            arguments.append(.integer(Int64(unit.recipients.count)))
            arguments.append(.bytes(try unit.encode()))
            arguments.append(.text(""))
        }
        let asked = arguments
        let reply = try await self.call(
            "apus1_fanstep",
            on: tag,
            keys: [entry.stream, StreamKeys(tag: tag).send(send)],
            arguments: asked,
            of: entry.name,
        ) { answer in
            guard answer[0].text == "ok" else { return nil }
            var again = asked
            for (unit, id) in answer.children.dropFirst().enumerated() { again[first + unit * 3 + 2] = .text(id.text) }
            return again
        }
        let answer = reply.root
        switch answer[0].text {
        case "ok":
            if step.isLast { self.observer?.entriesAcknowledged(1, stream: entry.stream) }
            return .ok
        case "lost": return .lost
        case "moved": return .moved(cursor: answer[1].text)
        case "full": return .full
        case "paced": return .paced
        case "paused":
            self.observer?.entriesAcknowledged(1, stream: entry.stream)
            return .paused
        case "cancelled":
            self.observer?.entriesAcknowledged(1, stream: entry.stream)
            return .cancelled
        default: throw StreamError.unexpected(function: "apus1_fanstep", answer: answer[0].text)
        }
    }

    /// Where a route's plan begins.
    package struct PlanState: Hashable, Sendable {
        /// How far it has come.
        package var cursor: String
        /// The routes that have a plan of this send, in order; the first also counts who is on no route.
        package var routes: [RouteNumber]
    }

    /// Where a route's plan stands; nil: the send has ended.
    package func planState(send: String, route: RouteNumber, tag: HashTag) async throws -> PlanState? {
        let keys = StreamKeys(tag: tag)
        let command = RedisCommand("HMGET", [.text(keys.send(send)), .text("cursor:\(route)"), .text("routes")])
        let reply = try await self.client.send(command, on: tag)
        guard !reply.root[0].isNull else { return nil }
        let routes = reply.root[1].text.split(separator: ",").compactMap { UInt32($0).map { RouteNumber($0) } }
        return PlanState(cursor: reply.root[0].text, routes: routes)
    }

    /// A unit filed to come back.
    package struct Retry: Sendable {
        /// When.
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
    }

    /// What a unit's owner is told when it reports.
    package struct Verdict: Hashable, Sendable {
        /// What the send wants of its units.
        package enum State: String, Hashable, Sendable {
            /// Go on.
            case running
            /// Send nothing more: an operator holds the send.
            case paused
            /// Close what is left: the send is stopped for good.
            case cancelled
            /// Close what is left: the provider refuses the message, whomever it is for.
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
        /// What an earlier owner left; asked for by `begin` only.
        package var journal: UnitJournal?
    }

    /// What a unit's owner does next.
    package enum NextStep: String, Sendable {
        /// Sends, if it is told so: nothing has gone out yet. The unit of a paused send is put aside at once.
        case begin
        /// Goes on.
        case `continue`
        /// Nothing: every recipient has its outcome or its retry.
        case finish
        /// Nothing more here: the unit is put aside if its send is paused, and goes back into its stream if not.
        case leave
    }

    /// What a provider says of a send's message, for the ledger.
    package struct Blame: Hashable, Sendable {
        /// The field that it calls wrong.
        package var field: String
        /// Who says so.
        package var provider: Provider
        /// Whether everybody whom the teller has sent to was refused for it: unless the ledger knows of somebody at this provider
        /// who was not, nobody else of the route is sent to.
        package var isByAll: Bool

        /// A word about a message.
        package init(field: String, provider: Provider, isByAll: Bool) {
            self.field = field
            self.provider = provider
            self.isByAll = isByAll
        }
    }

    /// Makes a unit's progress durable: bitmap, outcomes and retries together, or nothing. Without a journal it writes nothing.
    ///
    /// The same report twice, as after a lost answer, is written once.
    package func progress(
        _ entry: StreamEntry,
        of send: String,
        by consumer: StreamConsumer,
        tag: HashTag,
        journal: UnitJournal?,
        outcomes: OutcomeBatch? = nil,
        retries: [Retry] = [],
        blame: Blame? = nil,
        next: NextStep,
    ) async throws -> Verdict {
        precondition(journal != nil || (outcomes == nil && retries.isEmpty), "what is written has a number")
        var arguments: [RedisArgument] = [
            .text(consumer.group), .text(consumer.name), .text(entry.id), .bytes(journal?.encoded ?? []),
            .bytes(try outcomes?.encode() ?? []), .text(next.rawValue), .integer(Int64(retries.count)),
        ]
        for retry in retries {
            arguments.append(.integer(retry.due.value))
            arguments.append(.text(retry.id))
            arguments.append(.bytes(try retry.unit.encode()))
        }
        for retry in retries { arguments.append(.text(StreamKeys.workName(retry.unit.route, retry.unit.lane))) }
        if let blame {
            let taken = OutcomeCount(provider: blame.provider, outcome: .accepted, reason: .none, count: 0)
            arguments += [.text(blame.field), .text(blame.isByAll ? SendLedger.field(taken) : "")]
        }
        let asked = arguments
        let writes = journal != nil || next == .finish || next == .leave
        let reply = try await self.call(
            "apus1_progress",
            on: tag,
            keys: [entry.stream, StreamKeys(tag: tag).send(send)],
            arguments: asked,
            of: entry.name,
        ) { answer in
            guard writes, answer[0].text != "lost" else { return nil }
            var again = asked
            again[5] = .text("\(next.rawValue)/again")
            return again
        }
        let answer = reply.root
        guard let state = Verdict.State(rawValue: answer[0].text) else {
            throw StreamError.unexpected(function: "apus1_progress", answer: answer[0].text)
        }
        let isGone =
            switch next {
            case .finish, .leave: state != .lost
            case .begin: state == .paused
            case .continue: false
            }
        if isGone { self.observer?.entriesAcknowledged(1, stream: entry.stream) }
        return Verdict(
            state: state,
            ratePerSecond: UInt32(clamping: answer[1].number),
            journal: UnitJournal(encoded: answer[2].blob),
        )
    }

    /// Keeps a direct send that has something left to retry: body, state, outcomes so far, retries. False: it was kept before.
    ///
    /// - Throws: `StreamError.taken` when another send came by that id meanwhile: nothing was written.
    package func promote(
        _ command: SendCommand,
        identity: SendIdentity,
        origin: String,
        recipients: Int,
        batches: [OutcomeBatch],
        retries: [Retry],
    ) async throws -> Bool {
        let keys = self.home(app: command.app, identity.home)
        var arguments: [RedisArgument] = [
            .text(command.app), .text(identity.digest), .text(identity.send), .text(origin),
            .bytes(try command.encode()),
            .integer(Int64(recipients)), .integer(Int64(command.ratePerSecond)), .integer(Int64(batches.count)),
        ]
        for batch in batches { arguments.append(.bytes(try batch.encode())) }
        arguments.append(.integer(Int64(retries.count)))
        for retry in retries {
            arguments.append(.integer(retry.due.value))
            arguments.append(.text(retry.id))
            arguments.append(.text(StreamKeys.workName(retry.unit.route, retry.unit.lane)))
            arguments.append(.bytes(try retry.unit.encode()))
        }
        let asked = arguments
        let reply = try await self.call(
            "apus1_promote",
            on: keys.tag,
            keys: [keys.send(identity.send)],
            arguments: asked,
        ) { $0.text == "new" ? asked : nil }
        switch reply.root.text {
        case "new": return true
        case "again": return false
        case "taken": throw StreamError.taken(send: identity.send)
        default: throw StreamError.unexpected(function: "apus1_promote", answer: reply.root.text)
        }
    }

    /// Moves what is due to its streams; how many, and how long until the next (nil: none waits).
    package func moveDue(tag: HashTag) async throws -> (moved: Int, nextMilliseconds: Int64?) {
        let due = StreamKeys(tag: tag).due
        let reply = try await self.call(
            "apus1_due",
            on: tag,
            keys: [due],
            arguments: [.integer(Int64(StreamLimits.dueBatchMax))],
            repeatedBy: "apus1_due_again",
        ) { answer in
            let moves = answer.children.dropFirst(2).map { RedisArgument.text($0.text) }
            return moves.isEmpty ? nil : moves
        }
        let moved = Int(reply.root[0].number)
        if moved > 0 {
            self.observer?.entriesRead(moved, stream: due)
            self.observer?.entriesAcknowledged(moved, stream: due)
        }
        let wait = reply.root[1].number
        return (moved, wait < 0 ? nil : wait)
    }
}
