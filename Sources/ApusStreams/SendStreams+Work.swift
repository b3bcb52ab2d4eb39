package import ApusCore
package import ApusMessages
package import ApusRedis

extension SendStreams {
    /// A unit to append, and the stream it goes to.
    package struct PlannedUnit: Sendable {
        /// The unit.
        package var unit: WorkUnit

        /// A unit for its own route and lane.
        package init(_ unit: WorkUnit) { self.unit = unit }

        var streamName: String { StreamKeys.workName(self.unit.route, self.unit.lane) }
    }

    /// One step of a plan.
    package struct PlanStep: Sendable {
        /// What the cursor must still be.
        package var expected: String
        /// What it becomes.
        package var next: String
        /// What is appended.
        package var units: [PlannedUnit] = []
        /// Recipients found that no unit carries, because their outcome is in `outcomes` already.
        package var plannedBesides: UInt64 = 0
        /// Outcomes that come with this step; the last step always has some, be they empty.
        package var outcomes: OutcomeBatch?
        /// Whether nobody is left to find.
        package var isLast = false

        /// A step that appends nothing yet.
        package init(from expected: String, to next: String) {
            self.expected = expected
            self.next = next
        }
    }

    /// What became of a step.
    package enum StepResult: Hashable, Sendable {
        /// Done.
        case ok
        /// Another plans this send now: stop.
        case lost
        /// Another step was taken from here: go on from that cursor.
        case moved(cursor: String)
        /// A stream has enough waiting: come back.
        case full(stream: String)
        /// An operator holds the send.
        case paused
        /// The send is over.
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
        precondition(!step.isLast || step.outcomes != nil, "the last step tells feedback that planning is over")
        let keys = StreamKeys(tag: tag)
        var arguments: [RedisArgument] = [
            .text(consumer.group), .text(consumer.name), .text(entry.id), .text(step.expected), .text(step.next),
            .bytes(try step.outcomes?.encode() ?? []), .text(step.isLast ? "1" : "0"),
            .integer(Int64(step.plannedBesides)), .integer(Int64(step.units.count)),
        ]
        for planned in step.units {
            arguments.append(.text(planned.streamName))
            arguments.append(.integer(Int64(planned.unit.recipients.count)))
            arguments.append(.bytes(try planned.unit.encode()))
        }
        let reply = try await self.client.call(
            "apus1_fanstep",
            on: tag,
            keys: [keys.plan, keys.send(send)],
            arguments: arguments,
        )
        let answer = reply.root
        switch answer[0].text {
        case "ok":
            if step.isLast { self.observer?.entriesAcknowledged(1, stream: keys.plan) }
            return .ok
        case "lost": return .lost
        case "moved": return .moved(cursor: answer[1].text)
        case "full": return .full(stream: answer[1].text)
        case "paused": return .paused
        case "cancelled": return .cancelled
        default: throw StreamError.unexpected(function: "apus1_fanstep", answer: answer[0].text)
        }
    }

    /// Where a plan stands: its cursor and whether it may go on.
    package func planState(send: String, tag: HashTag) async throws -> (cursor: String, state: SendLedger.State)? {
        let keys = StreamKeys(tag: tag)
        let command = RedisCommand("HMGET", [.text(keys.send(send)), .text("cursor"), .text("state")])
        let reply = try await self.client.send(command, on: tag)
        guard !reply.root[1].isNull else { return nil }
        return (reply.root[0].text, SendLedger.State(rawValue: reply.root[1].text) ?? .running)
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
    package enum Verdict: Hashable, Sendable {
        /// Go on.
        case running
        /// Hand it back: an operator holds the send.
        case paused
        /// Close what is left: the send is over.
        case cancelled
        /// Stop: another owns the unit; nothing was written.
        case lost
    }

    /// Makes a unit's progress durable: bitmap, outcomes and retries together, or nothing. Without a journal it only renews the lease.
    ///
    /// The same report twice, as after a lost answer, is written once.
    package func progress(
        _ entry: StreamEntry,
        of send: String,
        by consumer: StreamConsumer,
        tag: HashTag,
        journal: UnitJournal?,
        outcomes: OutcomeBatch?,
        retries: [Retry],
        finish: Bool,
    ) async throws -> Verdict {
        precondition(journal != nil || (outcomes == nil && retries.isEmpty && !finish), "what is written has a number")
        var arguments: [RedisArgument] = [
            .text(consumer.group), .text(consumer.name), .text(entry.id), .bytes(journal?.encoded ?? []),
            .bytes(try outcomes?.encode() ?? []), .text(finish ? "1" : "0"), .integer(Int64(retries.count)),
        ]
        for retry in retries {
            arguments.append(.integer(retry.due.value))
            arguments.append(.text(retry.id))
            arguments.append(.bytes(try retry.unit.encode()))
        }
        let reply = try await self.client.call(
            "apus1_progress",
            on: tag,
            keys: [entry.stream, StreamKeys(tag: tag).send(send)],
            arguments: arguments,
        )
        if finish, reply.root.text != "lost" { self.observer?.entriesAcknowledged(1, stream: entry.stream) }
        switch reply.root.text {
        case "running", "done": return .running
        case "paused": return .paused
        case "cancelled": return .cancelled
        case "lost": return .lost
        default: throw StreamError.unexpected(function: "apus1_progress", answer: reply.root.text)
        }
    }

    /// Keeps a direct send that has something left to retry: body, state, outcomes so far, retries. False: it was kept before.
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
            .integer(Int64(recipients)), .integer(Int64(batches.count)),
        ]
        for batch in batches { arguments.append(.bytes(try batch.encode())) }
        arguments.append(.integer(Int64(retries.count)))
        for retry in retries {
            arguments.append(.integer(retry.due.value))
            arguments.append(.text(retry.id))
            arguments.append(.text(StreamKeys.workName(retry.unit.route, retry.unit.lane)))
            arguments.append(.bytes(try retry.unit.encode()))
        }
        let reply = try await self.client.call(
            "apus1_promote",
            on: keys.tag,
            keys: [keys.send(identity.send)],
            arguments: arguments,
        )
        return reply.root.text == "new"
    }

    /// Moves what is due to its streams; how many, and how long until the next (nil: none waits).
    package func moveDue(tag: HashTag) async throws -> (moved: Int, nextMilliseconds: Int64?) {
        let due = StreamKeys(tag: tag).due
        let reply = try await self.client.call(
            "apus1_due",
            on: tag,
            keys: [due],
            arguments: [.integer(Int64(StreamLimits.dueBatchMax))],
        )
        let moved = Int(reply.root[0].number)
        if moved > 0 {
            self.observer?.entriesRead(moved, stream: due)
            self.observer?.entriesAcknowledged(moved, stream: due)
        }
        let wait = reply.root[1].number
        return (moved, wait < 0 ? nil : wait)
    }

    /// What a take-over brought.
    package struct Claim: Sendable {
        /// Where the next one goes on.
        package var cursor: String
        /// What is ours now.
        package var entries: [StreamEntry]
        /// Entries that were pending but no longer exist: lost, which never happens unless somebody trimmed the stream.
        package var vanished: [String]
    }

    /// Takes over entries whose owner has been silent for a lease.
    package func claim(
        stream: String,
        by consumer: StreamConsumer,
        tag: HashTag,
        leaseMilliseconds: Int64,
        cursor: String,
    ) async throws -> Claim {
        let reply = try await self.client.call(
            "apus1_claim",
            on: tag,
            keys: [stream],
            arguments: [
                .text(consumer.group), .text(consumer.name), .integer(leaseMilliseconds),
                .integer(Int64(StreamLimits.claimBatchMax)), .text(cursor),
            ],
        )
        let answer = reply.root
        return Claim(
            cursor: answer[0].text,
            entries: answer[1].children.map { entry in
                StreamEntry(
                    stream: stream,
                    id: entry[0].text,
                    message: entry[1].blob,
                    deliveries: UInt32(clamping: entry[2].number),
                    journal: UnitJournal(encoded: entry[3].blob),
                )
            },
            vanished: answer[2].children.map(\.text),
        )
    }

    /// Keeps entries for another lease; the number that still were this consumer's.
    package func renew(stream: String, entries: [String], by consumer: StreamConsumer, tag: HashTag) async throws -> Int
    {
        try await self.renew(stream: stream, entries: entries, by: consumer, tag: tag, idleMilliseconds: 0)
    }

    /// Gives entries back, so that any other takes them at its next look.
    package func handBack(stream: String, entries: [String], by consumer: StreamConsumer, tag: HashTag) async throws {
        _ = try await self.renew(stream: stream, entries: entries, by: consumer, tag: tag, idleMilliseconds: 3_600_000)
    }

    private func renew(
        stream: String,
        entries: [String],
        by consumer: StreamConsumer,
        tag: HashTag,
        idleMilliseconds: Int64,
    ) async throws -> Int {
        let fixed: [RedisArgument] = [.text(consumer.group), .text(consumer.name), .integer(idleMilliseconds)]
        let reply = try await self.client.call(
            "apus1_renew",
            on: tag,
            keys: [stream],
            arguments: fixed + entries.map { .text($0) },
        )
        return Int(reply.root.number)
    }

    /// Takes the consumer off the stream if it owns nothing there.
    @discardableResult
    package func retire(stream: String, consumer: StreamConsumer, tag: HashTag) async throws -> Bool {
        let reply = try await self.client.call(
            "apus1_retire",
            on: tag,
            keys: [stream],
            arguments: [.text(consumer.group), .text(consumer.name)],
        )
        return reply.root.number == 1
    }
}
