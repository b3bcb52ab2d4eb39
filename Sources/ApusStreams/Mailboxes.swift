public import ApusCore
public import ApusMessages
public import ApusRedis

/// Takes the commands of publishers: publishing, intake, and the end of direct sends.
public struct Mailboxes: Sendable {
    let access: StreamAccess

    // MARK: Publishing

    /// The result of a publication.
    public enum PublishResult: Hashable, Sendable {
        /// The command stands in the mailbox.
        case new(send: String, entry: String)
        /// The key or the id names a send with the same body already.
        case duplicate(send: String)
        /// The key or the id names a send with another body.
        case conflict(send: String)
        /// The mailbox holds as many commands as it may; come back after that time.
        case full(entries: Int, comeBackMilliseconds: Int64)

        /// Reads the answer to a ``PreparedCommand``.
        package init(_ reply: RESPReply) throws {
            let answer = reply.root
            switch try answer[0].text() {
            case "new": self = .new(send: try answer[1].text(), entry: try answer[2].text())
            case "duplicate": self = .duplicate(send: try answer[1].text())
            case "conflict": self = .conflict(send: try answer[1].text())
            case "full":
                self = .full(entries: Int(try answer[1].number()), comeBackMilliseconds: try answer[2].number())
            default: throw StreamError.unexpected(function: PublishCall.function, answer: try answer[0].text())
            }
        }
    }

    /// A command of a publisher on its way into its mailbox: the same bytes at every attempt.
    package struct PreparedCommand: Sendable {
        /// The shard that is its home.
        package let keys: StreamKeys
        /// The call that is sent to Redis.
        package let command: RedisCommand
    }

    /// Prepares writing a command into the mailbox of its home shard. The command needs an id: it is what the publisher finds it by.
    ///
    /// - Parameters:
    ///   - encoded: the command's encoding.
    ///   - publisher: the publisher into whose own mailbox it is written; nil for the shared one. Into its own one it is written
    ///     without a look at idempotency keys, which publishers cannot be trusted to write: a dispatcher looks when it takes the command.
    package func prepare(
        _ command: SendCommand,
        encoded: [UInt8],
        lane: Lane,
        of publisher: PublisherName? = nil,
        mailboxEntriesMax: Int = StreamLimits.mailboxEntriesMax,
    ) -> PreparedCommand {
        precondition(!command.id.isEmpty, "a command to publish needs an id")
        let identity = SendIdentity(of: command, source: "", digest: SendIdentity.digest(ofEncoded: encoded))
        let keys = self.access.home(of: identity)
        let call = PublishCall(
            keys: [keys.mailbox(lane, of: publisher)],
            key: publisher == nil ? identity.key : [],
            digest: identity.digest,
            app: command.app,
            send: command.id,
            entriesMax: mailboxEntriesMax,
            command: encoded,
        )
        return PreparedCommand(keys: keys, command: call.command)
    }

    /// Writes a command into the mailbox of its home shard.
    public func publish(
        _ command: SendCommand,
        lane: Lane,
        mailboxEntriesMax: Int = StreamLimits.mailboxEntriesMax,
    ) async throws -> PublishResult {
        let encoded = try command.encode()
        return try await self.publish(
            self.prepare(command, encoded: encoded, lane: lane, mailboxEntriesMax: mailboxEntriesMax)
        )
    }

    /// Writes a prepared command into its mailbox.
    package func publish(_ prepared: PreparedCommand) async throws -> PublishResult {
        let reply = try await self.access.client.send(prepared.command, on: prepared.keys.tag, options: .idempotent)
        return try PublishResult(reply)
    }

    // MARK: Intake

    /// The decision whether a command is taken.
    public enum Admission: Hashable, Sendable {
        /// The command is taken.
        case new
        /// The same mailbox entry was taken before.
        case known
        /// The key or the id names that send, with the same body, so the command is not taken.
        case duplicate(send: String)
        /// The key or the id names that send, with another body, so the command is not taken.
        case conflict(send: String)
        /// The app has as many open sends as it may have, or as many bytes of their commands.
        case crowded

        init(_ answer: RESPNode, of function: String) throws {
            switch try answer[0].text() {
            case "new": self = .new
            case "known": self = .known
            case "duplicate": self = .duplicate(send: try answer[1].text())
            case "conflict": self = .conflict(send: try answer[1].text())
            case "crowded": self = .crowded
            default: throw StreamError.unexpected(function: function, answer: try answer[0].text())
            }
        }
    }

    /// Decides whether a direct send may go out; `known`: it has, and its ledger is kept.
    ///
    /// Redis is not asked at the first delivery of an entry that its publication has admitted. What the publication wrote is then kept for
    /// a replay: a server that takes over may have lost it, and a publisher that got no answer may publish again.
    ///
    /// - Parameter home: the tag of the send's home shard.
    package func admit(
        _ entry: StreamEntry,
        app: String,
        identity: SendIdentity,
        home: HashTag,
    ) async throws -> Admission {
        let keys = StreamKeys(tag: home)
        let call = AdmitSendCall(
            keys: [keys.idempotency],
            app: app,
            key: identity.key,
            digest: identity.digest,
            send: identity.send,
            entry: entry.name,
        )
        let repeated = call.repeated
        if entry.isAdmitted {
            self.access.remember(repeated, byteCount: call.byteCount, on: keys.tag)
            return .new
        }
        func ask() async throws -> Admission {
            let answer = try await self.access.call(call, on: keys.tag) { $0[0].string == "new" ? repeated : nil }
            return try Admission(answer, of: AdmitSendCall.function)
        }
        let (admission, mailbox) = (try await ask(), HashTag(ofKey: entry.stream))
        // An entry whose send is kept is acknowledged next.
        guard admission == .known, mailbox != home else { return admission }
        return try await self.access.replicated(on: home, acknowledgedAt: mailbox, ask)
    }

    /// Forgets that a direct send was admitted that is refused all the same: a server that takes over, and has not its receipt, must not know its
    /// key either.
    ///
    /// - Parameter home: the tag of the send's home shard.
    package func forgetAdmission(of entry: StreamEntry, home: HashTag) {
        self.access.replayLogs[home]?.forgetAdmission(of: entry.name)
    }

    /// Returns true when the server has forgotten an entry and its publication, which a replay has restored without it: the send ends all the
    /// same, although nobody can own the entry.
    package func isLost(_ entry: StreamEntry, tag: HashTag) -> Bool {
        self.access.replayLogs[tag]?.isLost(entry.name) ?? false
    }

    /// Takes a command that needs a plan for each of those routes. When `entry` stands in the home shard, it is acknowledged by the same
    /// call.
    ///
    /// - Parameter limits: what the app may have open.
    package func accept(
        _ command: SendCommand,
        identity: SendIdentity,
        routes: [RouteNumber],
        from entry: StreamEntry,
        by consumer: StreamConsumer,
        due: UnixMilliseconds?,
        limits: OpenSendLimits = .none,
    ) async throws -> (admission: Admission, acknowledged: Bool) {
        precondition(!routes.isEmpty, "a send without routes has no recipients")
        let keys = self.access.home(of: identity)
        let mailbox = HashTag(ofKey: entry.stream)
        let isHome = mailbox == keys.tag
        let share = self.access.share(of: limits)
        let call = AcceptSendCall(
            keys: [keys.send(SendKey(app: command.app, id: identity.send))],
            app: command.app,
            key: identity.key,
            digest: identity.digest,
            send: identity.send,
            command: try command.encode(),
            routes: routes.map(\.value),
            dueMilliseconds: due?.value ?? 0,
            ratePerSecond: command.ratePerSecond,
            mailbox: isHome ? entry.stream : "",
            group: consumer.group,
            entry: entry.name,
            appSendsMax: share.sends,
            appBytesMax: share.bytes,
        )
        let answer = try await self.access.replicated(on: keys.tag, acknowledgedAt: mailbox) {
            try await self.access.call(call, on: keys.tag) { answer in
                guard answer[0].string == "new", let entries = try? answer.texts(from: 1) else { return nil }
                var repeated = call
                repeated.planEntries = entries
                return repeated
            }
        }
        let admission = try Admission(answer, of: AcceptSendCall.function)
        switch admission {
        case .new, .known: if isHome { self.access.observer?.entriesAcknowledged(1, stream: entry.stream) }
        case .duplicate, .conflict, .crowded: break
        }
        return (admission, isHome)
    }

    /// Ends a direct send of which nothing is left to retry: writes its outcomes where its home is, and its receipt unless that goes into a
    /// stream of the publisher's or follows receipts of recipients, and acknowledges its mailbox entry. False: another owns it now, or its server
    /// has forgotten it.
    ///
    /// A send over several routes ends so only where its receipt is written by the call or nobody wants one; otherwise it is kept, and its
    /// ledger joins its batches.
    ///
    /// This is one call in the home shard, which leaves with the next one to that server, or by itself a few milliseconds later. A command
    /// that was written into another shard's mailbox is kept at its home first, so that whoever takes the entry over finds it ended.
    ///
    /// - Parameters:
    ///   - tag: the tag of the entry's shard.
    ///   - home: the tag of the send's home shard.
    ///   - batches: the outcomes on each route, at least one.
    ///   - finisher: makes the call together with others of its mailbox; nil: by itself.
    /// - Throws: `SendNotKeptError` when another send came by that id meanwhile: nothing was written.
    package func finish(
        _ entry: StreamEntry,
        of command: SendCommand,
        identity: SendIdentity,
        by consumer: StreamConsumer,
        tag: HashTag,
        home: HashTag,
        recipients: Int,
        batches: [OutcomeBatch],
        finisher: Finisher? = nil,
    ) async throws -> Bool {
        let entries = Entries(access: self.access)
        let wantsReceipt = batches[0].receiptLevel != .none
        let receiptIsWritten = batches[0].replyTo.isEmpty && batches[0].receiptLevel == .summary
        guard home == tag, batches.count == 1 || receiptIsWritten || !wantsReceipt else {
            // Frozen for longer than a lease, and another has ended the send: what is kept now would be a second one. Where the home is elsewhere,
            // every end is kept there, and known: also when the entry's server has forgotten the entry, the end is not lost.
            if home == tag {
                let holding = Entries.Owned(stream: entry.stream, id: entry.id)
                let isOurs = try await entries.renew([holding], by: consumer, tag: tag) == 1
                guard isOurs || self.isLost(entry, tag: tag) else { return false }
            }
            _ = try await self.persist(
                command,
                identity: identity,
                origin: entry.origin,
                recipients: recipients,
                batches: batches,
                retries: [],
                // There are no retries whose times it would belong to.
                now: UnixMilliseconds(0),
            )
            return try await !entries.acknowledge([entry], by: consumer, tag: tag).isEmpty
        }
        var batches = batches
        batches[0].planned = UInt64(recipients)
        for index in batches.indices {
            batches[index].isFinal = true
            batches[index].receiptIsWritten = receiptIsWritten
        }
        let call = FinishSendCall(
            keys: [entry.stream],
            consumer: consumer,
            entry: entry.name,
            receipt: receiptIsWritten ? try SendReceipt(final: batches).encode() : [],
            outcomes: try batches.map { try $0.encode() },
        )
        guard let finisher, batches.count == 1 else { return try await self.finish(call, tag: tag) }
        return try await finisher.answer(to: call)
    }

    /// Ends direct sends of a shard by one call for each mailbox at a time: those that are ready while calls are under way share the next ones.
    package typealias Finisher = CallBatcher<FinishSendCall, Bool>

    /// Creates the finisher of a shard's mailboxes.
    ///
    /// - Parameter executor: where sends end.
    package func finisher(tag: HashTag, on executor: any TaskExecutor) -> Finisher {
        CallBatcher(countMax: StreamLimits.finishedTogetherMax, on: executor) { calls in
            let mailbox = calls[0].keys
            // Publishers may have mailboxes of their own, but nearly always all are of one.
            guard calls.contains(where: { $0.keys != mailbox }) else {
                return try await self.finishTogether(calls, tag: tag)
            }
            var finished = Array(repeating: false, count: calls.count)
            for indices in Dictionary(grouping: calls.indices, by: { calls[$0].keys }).values {
                let answers = try await self.finishTogether(indices.map { calls[$0] }, tag: tag)
                for (index, answer) in zip(indices, answers) { finished[index] = answer }
            }
            return finished
        }
    }

    /// Ends sends of one mailbox.
    private func finishTogether(_ calls: [FinishSendCall], tag: HashTag) async throws -> [Bool] {
        guard calls.count > 1 else { return try await self.finishOneByOne(calls, tag: tag) }
        do {
            return try await self.finish(calls, tag: tag)
        } catch  where Disposition(of: error) == .bury {
            // Of one of them, or of all together: alone each gets its own answer.
            return try await self.finishOneByOne(calls, tag: tag)
        }
    }

    private func finish(_ call: FinishSendCall, tag: HashTag) async throws -> Bool {
        let answer = try await self.access.call(call, on: tag, about: call.entry, mayWait: true) {
            $0.integer == 1 ? call : nil
        }
        guard try answer.number() == 1 else { return false }
        self.access.observer?.entriesAcknowledged(1, stream: call.keys[0])
        return true
    }

    private func finishOneByOne(_ calls: [FinishSendCall], tag: HashTag) async throws -> [Bool] {
        var finished: [Bool] = []
        for call in calls { finished.append(try await self.finish(call, tag: tag)) }
        return finished
    }

    /// Ends several sends of one mailbox and consumer, each of one batch of outcomes. Returns for each whether the consumer owned it.
    func finish(_ calls: [FinishSendCall], tag: HashTag) async throws -> [Bool] {
        let together = FinishSendsCall(calls)
        let answer = try await self.access.call(together, on: tag, about: calls.map(\.entry), mayWait: true) { answer in
            zip(calls, answer.children).map { $1.integer == 1 ? $0 : nil }
        }
        guard let answer else { return try await self.finishOneByOne(calls, tag: tag) }
        let finished = try answer.elements().map { try $0.number() == 1 }
        guard finished.count == calls.count else { throw answer.reply.unexpected("an answer for each send") }
        self.access.observer?.entriesAcknowledged(finished.count(where: \.self), stream: together.keys[0])
        return finished
    }

    /// Keeps a direct send that has something left to retry: command, state, outcomes so far, retries. False: it was kept before.
    ///
    /// - Parameters:
    ///   - now: the time by the clock that the retries' own times are of.
    ///   - limits: what the app may have open. Of a send of which something may have gone out there are none, because it cannot be refused.
    /// - Throws: `SendNotKeptError` when another send came by that id meanwhile, or the app has too much open: nothing was written.
    package func persist(
        _ command: SendCommand,
        identity: SendIdentity,
        origin: String,
        recipients: Int,
        batches: [OutcomeBatch],
        retries: [UnitRetry],
        now: UnixMilliseconds,
        limits: OpenSendLimits = .none,
    ) async throws -> Bool {
        let keys = self.access.home(of: identity)
        let share = self.access.share(of: limits)
        let call = PersistSendCall(
            keys: [keys.send(SendKey(app: command.app, id: identity.send))],
            app: command.app,
            digest: identity.digest,
            origin: origin,
            command: try command.encode(),
            recipients: recipients,
            ratePerSecond: command.ratePerSecond,
            outcomes: try batches.map { try $0.encode() },
            retries: try UnitRetry.Packed(retries, now: now),
            appSendsMax: share.sends,
            appBytesMax: share.bytes,
        )
        let answer = try await self.access.replicated(on: keys.tag, acknowledgedAt: HashTag(ofKey: origin)) {
            try await self.access.call(call, on: keys.tag) { answer in
                guard answer.string == "new" else { return nil }
                // It was kept, and is kept again whatever the app has opened since.
                var repeated = call
                (repeated.appSendsMax, repeated.appBytesMax) = (0, 0)
                return repeated
            }
        }
        switch try answer.text() {
        case "new": return true
        case "known": return false
        case "duplicate": throw SendNotKeptError(admission: .duplicate(send: identity.send))
        case "conflict": throw SendNotKeptError(admission: .conflict(send: identity.send))
        case "crowded": throw SendNotKeptError(admission: .crowded)
        default: throw StreamError.unexpected(function: PersistSendCall.function, answer: try answer.text())
        }
    }

    // MARK: Reading back

    /// Returns the command of a send; nil when it has ended.
    public func command(of send: SendKey, tag: HashTag) async throws -> SendCommand? {
        let get = RedisCommand("GET", .text(StreamKeys(tag: tag).command(send)))
        let answer = try await self.access.readCurrent(get, on: tag)
        return answer.isNull ? nil : try SendCommand.decode(answer.blob())
    }

    /// Returns whether the command written at that origin was taken as that send. Then its state is kept, and it ends with receipts
    /// of its own, and the entry is acknowledged.
    ///
    /// - Parameter home: what chooses the home shard together with the app: the idempotency key, else the id.
    package func isKept(_ send: String, app: String, home: String, origin: String) async throws -> Bool {
        let keys = self.access.home(app: app, home)
        let state = keys.send(SendKey(app: app, id: send))
        return try await self.access.replicated(on: keys.tag, acknowledgedAt: HashTag(ofKey: origin)) {
            let answer = try await self.access.send(RedisCommand("HGET", .text(state), "origin"), on: keys.tag)
            return try answer.text() == origin
        }
    }
}

/// Limits what Redis keeps of the sends of one app that have not ended. Each shard holds its share of both.
package struct OpenSendLimits: Hashable, Sendable {
    /// The limits of an app that may have any number of open sends.
    package static let none = OpenSendLimits(sends: nil, bytes: nil)

    /// The maximum of open sends: planned ones, and direct ones that are kept to be retried; nil for any number.
    package var sends: Int?
    /// The maximum of bytes of their commands, of which each shard takes one of any size; nil for any number.
    package var bytes: Int?

    /// Creates limits.
    package init(sends: Int?, bytes: Int?) {
        self.sends = sends
        self.bytes = bytes
    }
}
