internal import ApusCore
internal import ApusMessages
internal import ApusRedis
internal import ApusService
internal import ApusStreams
internal import Logging

/// Ends commands of which nothing goes out: each with a receipt where its publisher looks.
extension DispatchHandler {
    /// Refuses a command, of which at least the head could be read: dead letter and receipt.
    func refuse(
        _ entry: StreamEntry,
        _ cause: DeadLetter.Cause,
        _ problem: Problem,
        _ head: CommandHead,
        command: SendCommand?,
        now: UnixMilliseconds,
    ) async throws {
        self.count(cause == .conflict ? .conflict : .invalid)
        let send = SendIdentity.send(id: head.id, source: entry.source)
        let trace = command.flatMap { SendContext.trace(of: $0, send: send) }
        self.logger.traced(trace).warning(
            "refused a command",
            metadata: [
                "entry": "\(entry.origin)", "code": "\(problem.code)", "problem": "\(problem)", "app": "\(head.app)",
            ],
        )
        var letter = self.letter(entry, cause, problem, at: now)
        letter.app = head.app
        letter.send = send
        // The letters of a shard are bounded together: one who floods a mailbox of its own must not push out those of others. Its receipt
        // says the same.
        let isOwn = self.publisher(of: entry) != nil
        try await self.end(entry, letter: isOwn ? nil : letter, problem: problem, head, command: command)
    }

    /// Gives up a command that was delivered again and again: dead letter and receipt. Nothing but its head is read, for decoding it
    /// may be what it does harm by.
    func giveUp(_ entry: StreamEntry, _ problem: Problem) async throws {
        let head = IntakeDecision.usable(CommandHead(reading: entry.message), by: self.publisher(of: entry))
        let send = SendIdentity.send(id: head.id, source: entry.source)
        var letter = self.letter(entry, .poison, problem, at: self.clock.now())
        letter.app = head.app
        letter.send = send
        self.logger.error(
            "gave up a command",
            metadata: ["entry": "\(entry.origin)", "app": "\(head.app)", "send": "\(send)", "problem": "\(problem)"]
        )
        let home = head.idempotencyKey.isEmpty ? send : head.idempotencyKey
        let isKept = try await self.streams.mailboxes.isKept(send, app: head.app, home: home, origin: entry.origin)
        // A command that was taken ends with receipts of its own.
        guard isKept else { return try await self.end(entry, letter: letter, problem: problem, head, command: nil) }
        _ = try await self.streams.deadLetters.write(
            entry,
            by: self.consumer,
            tag: self.keys.tag,
            letter: letter,
            receipt: nil
        )
    }

    /// Gives up a unit whose outcomes cannot be written, so that nobody is sent to again only for that: its recipients
    /// without a written outcome end as unknown, and a dead letter keeps those that were certainly not sent to.
    func giveUp(_ entry: StreamEntry, _ unit: WorkUnit, _ unwritten: UnitDriver.UnwrittenOutcomes) async throws {
        let detail = "its recipients may have been sent to, but their outcomes cannot be written: \(unwritten.cause)"
        var letter = self.letter(entry, .poison, Problem(code: "poison", detail: detail), at: self.clock.now())
        (letter.app, letter.send) = (unit.send.app, unit.send.id)
        var open = unit
        open.recipients =
            UnitRemainder(unit, journal: unwritten.sent.map { UnitJournal(sequence: 1, bitmap: $0) })
            .untouched
        open.badgesCounted = true
        let isAnyUnsent = unwritten.sent != nil && open.recipients.count > 0
        if isAnyUnsent { letter.payload = try open.encode() }
        self.logger.error(
            "gave up a unit whose outcomes cannot be written",
            metadata: [
                "entry": "\(entry.origin)", "app": "\(unit.send.app)", "send": "\(unit.send.id)",
                "error": "\(unwritten.cause)", "unsent": "\(isAnyUnsent ? open.recipients.count : 0)",
            ]
        )
        let journal = unwritten.written.isEmpty ? nil : UnitJournal(sequence: 1, bitmap: unwritten.written)
        let batch = await self.closing(unit, entry, journal, .failed, .unknown)
        let (letters, writer) = (self.streams.deadLetters, OutcomeWriter(logger: self.logger))
        let kept = isAnyUnsent ? letter : nil
        do {
            // The outcomes alone: should they be refused, nothing of the call is written.
            _ = try await writer.write(refusalsMax: 0) {
                try await letters.write(
                    entry,
                    by: self.consumer,
                    tag: self.keys.tag,
                    letter: nil,
                    receipt: nil,
                    outcomes: batch
                )
            }
            if let kept { try await writer.write { try await letters.keep(kept, tag: self.keys.tag) } }
        } catch {
            guard Disposition(of: error) != .stop else { throw error }
            // The send is closed when it has been silent for long.
            _ = try await writer.write {
                try await letters.write(entry, by: self.consumer, tag: self.keys.tag, letter: kept, receipt: nil)
            }
        }
    }

    /// Makes the dead letter of an entry, without app and send.
    func letter(
        _ entry: StreamEntry,
        _ cause: DeadLetter.Cause,
        _ problem: Problem,
        at now: UnixMilliseconds,
    ) -> DeadLetter {
        var letter = DeadLetter(
            stream: entry.stream,
            entry: entry.id,
            cause: cause,
            problem: problem,
            payload: Array(entry.message.prefix(Limits.deadLetterPayloadBytesMax)),
            at: now,
        )
        letter.deliveries = entry.deliveries
        letter.service = "dispatcher"
        return letter
    }

    /// Ends a command that came too late: its publisher gets a receipt, and that is all, the same one at each delivery. A command that was
    /// taken at an earlier one ends with receipts of its own.
    func expire(_ entry: StreamEntry, _ command: SendCommand) async throws {
        let identity = SendIdentity(of: command, source: entry.source)
        let send = identity.send
        if entry.deliveries > 1 {
            let isKept = try await self.streams.mailboxes.isKept(
                send,
                app: command.app,
                home: identity.home,
                origin: entry.origin
            )
            guard !isKept else {
                try await self.streams.entries.acknowledge([entry], by: self.consumer, tag: self.keys.tag)
                return
            }
        }
        self.count(.expired)
        let problem = Problem(
            code: "expired",
            field: "notification.expiry",
            detail: "it has no worth any more when it could be sent",
        )
        self.logger.traced(SendContext.trace(of: command, send: send)).info(
            "a command came too late",
            metadata: ["app": "\(command.app)", "send": "\(send)"],
        )
        try await self.end(entry, letter: nil, problem: problem, CommandHead(command), command: command)
    }

    /// Ends a command of an app that has as much open as it may. Its receipt says so; a dead letter would take of others what it may not take.
    func refuseForRoom(_ entry: StreamEntry, _ command: SendCommand) async throws {
        self.count(.invalid)
        let problem = Problem(
            code: "too_much_open",
            field: "app",
            detail:
                "has as many sends that have not ended as dispatcher.open_sends_per_app or open_bytes_per_app allows",
        )
        let send = SendIdentity(of: command, source: entry.source).send
        self.logger.traced(SendContext.trace(of: command, send: send)).warning(
            "refused a command of an app that has too much open",
            metadata: ["app": "\(command.app)", "send": "\(send)"],
        )
        try await self.end(entry, letter: nil, problem: problem, CommandHead(command), command: command)
    }

    /// Ends a command that is not taken, with a receipt that says why.
    func end(
        _ entry: StreamEntry,
        letter: DeadLetter?,
        problem: Problem,
        _ head: CommandHead,
        command: SendCommand?,
    ) async throws {
        let send = SendIdentity.send(id: head.id, source: entry.source)
        var receipt = SendReceipt(id: "refused:\(entry.source)", send: send, app: head.app, kind: .refused)
        receipt.problem = problem
        try await self.end(entry, letter: letter, receipt: receipt, head, command: command)
    }

    /// Ends a command of which nothing goes out, with a receipt.
    func end(
        _ entry: StreamEntry,
        letter: DeadLetter?,
        receipt: SendReceipt,
        _ head: CommandHead,
        command: SendCommand?,
    ) async throws {
        var receipt = receipt
        if let command { receipt.carry(command, send: receipt.send) }
        receipt.idempotencyKey = head.idempotencyKey
        receipt.publishedAtNanoseconds = command?.publishedAtNanoseconds ?? 0
        var ownReceipt: SendReceipt? = receipt
        let home = self.receiptsTag(of: head, send: receipt.send)
        if !head.replyTo.isEmpty || home != self.keys.tag {
            try await self.write(receipt, replyTo: head.replyTo, tag: home)
            ownReceipt = nil
        }
        _ = try await self.streams.deadLetters.write(
            entry,
            by: self.consumer,
            tag: self.keys.tag,
            letter: letter,
            receipt: ownReceipt,
            isRepeated: ownReceipt != nil
        )
    }
}

extension DispatchHandler {
    /// Writes a receipt where its publisher looks. What it is about is acknowledged in this shard, afterwards.
    func write(_ receipt: SendReceipt, replyTo: String, tag: HashTag) async throws {
        let refusal = try await self.streams.outcomes.write(
            receipt,
            replyTo: replyTo,
            tag: tag,
            acknowledgedAt: self.keys.tag,
        )
        guard let refusal else { return }
        self.logger.warning(
            "reply_to takes no receipt; it goes to the shard's own stream",
            metadata: ["send": "\(receipt.send)", "app": "\(receipt.app)", "error": "\(refusal)"]
        )
    }

    /// Returns the shard whose receipts a publisher looks at: the command's home, whatever mailbox it was written into.
    func receiptsTag(of head: CommandHead, send: String) -> HashTag {
        guard !head.app.isEmpty else { return self.keys.tag }
        return self.streams.home(app: head.app, head.idempotencyKey.isEmpty ? send : head.idempotencyKey).tag
    }
}

extension SendReceipt {
    /// Goes on with the trace of its command.
    mutating func carry(_ command: SendCommand, send: String) {
        guard let trace = SendContext.trace(of: command, send: send) else { return }
        self.traceparent = trace.traceparent
        self.tracestate = command.tracestate
    }
}

/// Ends plans and units of which nothing goes out from here.
extension DispatchHandler {
    /// Asks whether a unit may go out. That of a paused send is put aside.
    func begin(_ unit: WorkUnit, _ entry: StreamEntry) async throws -> Work.Verdict {
        try await self.streams.work.record(
            entry,
            of: unit.send,
            by: self.consumer,
            tag: self.keys.tag,
            journal: nil,
            next: .begin,
        )
    }

    /// Obeys the send of a unit whose recipients, or whose send's topics, cannot be read for now, because their server is away: to be paused or
    /// cancelled it need not be back.
    ///
    /// - Returns: false when the recipients are still to be sent to.
    func endUnread(_ unit: WorkUnit, _ entry: StreamEntry) async throws -> Bool {
        let verdict = try await self.begin(unit, entry)
        switch verdict.state {
        case .running: return false
        case .paused, .lost: break
        case .cancelled: try await self.close(unit, entry, verdict.journal, .cancelled, .cancelled)
        case .refused: try await self.close(unit, entry, verdict.journal, .rejected, .payload)
        case .done: try await self.drop(entry)
        }
        return true
    }

    /// Obeys the send of a plan whose recipients, or whose send's topics, cannot be found for now, because their server is away. It makes a step
    /// that leads nowhere.
    ///
    /// - Returns: false when the recipients are still to be found.
    func endUnplanned(_ entry: StreamEntry, _ route: RouteNumber) async throws -> Bool {
        guard let send = SendKey(String(decoding: entry.message, as: UTF8.self)),
            let state = try await self.streams.plans.state(send: send, route: route, tag: self.keys.tag)
        else { return false }
        let outcomes = await self.batch(of: send, route)
        let result = try await self.streams.plans.advance(
            Plans.Step(from: state.cursor, to: state.cursor, outcomes: outcomes),
            send: send,
            entry: entry,
            by: self.consumer,
            tag: self.keys.tag,
        )
        switch result {
        case .lost, .paused, .cancelled: return true
        case .ok, .moved, .full, .paced: return false
        }
    }

    /// Ends a unit with that outcome for everything that it has left open.
    func close(
        _ unit: WorkUnit,
        _ entry: StreamEntry,
        _ journal: UnitJournal?,
        _ outcome: Outcome,
        _ reason: Reason,
    ) async throws {
        try await self.drop(entry, outcomes: await self.closing(unit, entry, journal, outcome, reason))
    }

    /// Takes an entry out of its stream, with the outcomes that it comes to.
    func drop(_ entry: StreamEntry, outcomes: OutcomeBatch? = nil) async throws {
        _ = try await self.streams.deadLetters.write(
            entry,
            by: self.consumer,
            tag: self.keys.tag,
            letter: nil,
            receipt: nil,
            outcomes: outcomes
        )
    }
}
