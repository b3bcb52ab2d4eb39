package import ApusCore
package import ApusMessages
package import ApusRedis

/// Names a dead letter: its shard, and its entry there.
package struct DeadLetterID: Hashable, Sendable, CustomStringConvertible {
    /// The shard's number.
    package let shard: Int
    /// The id of its entry in the shard's dead letters.
    package let entry: String

    /// Creates a name.
    package init(shard: Int, entry: String) {
        self.shard = shard
        self.entry = entry
    }

    /// Reads the text of a name; nil for any other text.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2, let shard = Int(parts[0]), shard >= 0 else { return nil }
        let numbers = parts[1].split(separator: "-", omittingEmptySubsequences: false)
        guard numbers.count == 2, numbers.allSatisfy({ UInt64($0) != nil }) else { return nil }
        self.init(shard: shard, entry: String(parts[1]))
    }

    /// The text `<shard>/<entry>`.
    package var description: String { "\(self.shard)/\(self.entry)" }
}

/// Holds a dead letter with its name.
package struct StoredDeadLetter: Hashable, Sendable {
    /// Its name.
    package let id: DeadLetterID
    /// The letter.
    package let letter: DeadLetter

    /// Creates a letter of that name.
    package init(id: DeadLetterID, letter: DeadLetter) {
        self.id = id
        self.letter = letter
    }

    /// Creates the letter of an entry. One that this version cannot read becomes a letter that holds its bytes, from no stream: it can be
    /// shown and removed, but not replayed.
    init(_ bytes: [UInt8], id: DeadLetterID) {
        do throws(MessageError) {
            self.init(id: id, letter: try DeadLetter.decode(bytes))
        } catch {
            let letter = DeadLetter(
                stream: "",
                entry: "",
                cause: .malformed,
                problem: Problem(code: "unreadable", detail: "this version cannot read the letter: \(error)"),
                payload: bytes,
                at: StreamEntry.time(ofID: id.entry) ?? UnixMilliseconds(0),
            )
            self.init(id: id, letter: letter)
        }
    }

    /// True when the letter itself cannot be read by this version.
    package var isUnreadable: Bool { self.letter.stream.isEmpty }

    /// The message in the letter, according to the stream that it came from.
    package var message: DeadMessage { DeadMessage(self.letter) }

    /// True when the original was larger than any message, so that only its beginning was kept.
    package var isTruncated: Bool {
        guard self.letter.payload.count >= Limits.deadLetterPayloadBytesMax else { return false }
        guard case .unreadable = self.message else { return false }
        return true
    }
}

/// The message of a dead letter, as far as it can be read.
package enum DeadMessage: Hashable, Sendable {
    /// The command of a mailbox.
    case command(SendCommand)
    /// The work unit of a route.
    case unit(WorkUnit)
    /// The send of a plan.
    case plan(send: SendKey)
    /// The outcomes of recipients.
    case outcomes(OutcomeBatch)
    /// The command to registration.
    case registration(RegistrationCommand)
    /// The client event.
    case event(ClientEvent)
    /// The receipt that the webhook did not take.
    case receipt(SendReceipt)
    /// The bytes are not what the stream carries, or the stream is unknown to this version.
    case unreadable(String)

    init(_ letter: DeadLetter) {
        let name = String(letter.stream.drop { $0 != "}" }.dropFirst())
        do throws(MessageError) {
            switch name.prefix(while: { $0 != ":" }) {
            case "in": self = .command(try SendCommand.decode(letter.payload))
            case "work": self = .unit(try WorkUnit.decode(letter.payload))
            case "outcomes": self = .outcomes(try OutcomeBatch.decode(letter.payload))
            case "register": self = .registration(try RegistrationCommand.decode(letter.payload))
            case "events": self = .event(try ClientEvent.decode(letter.payload))
            case "receipts": self = .receipt(try SendReceipt.decode(letter.payload))
            case "plan":
                let send = SendKey(String(decoding: letter.payload, as: UTF8.self))
                self = send.map { .plan(send: $0) } ?? .unreadable("no app and id of a send")
            default: self = .unreadable("of an unknown stream")
            }
        } catch {
            self = .unreadable("\(error)")
        }
    }
}

/// Stores entries that could not be handled.
package struct DeadLetterStore: Sendable {
    let access: StreamAccess

    /// Acknowledges an entry that could not be handled and writes its letter, receipt and outcomes, together. Returns false when another
    /// owns the entry.
    ///
    /// - Parameters:
    ///   - letter: the letter for an operator; nil for none.
    ///   - receipt: the receipt for the publisher; nil for none.
    ///   - outcomes: the outcomes of the entry's recipients; nil for none.
    ///   - isRepeated: false when something that is not repeated after a failover came before it, such as a receipt in another stream: an
    ///     entry that comes back brings that back, too.
    package func write(
        _ entry: StreamEntry,
        by consumer: StreamConsumer,
        tag: HashTag,
        letter: DeadLetter?,
        receipt: SendReceipt?,
        outcomes: OutcomeBatch? = nil,
        isRepeated: Bool = true,
    ) async throws -> Bool {
        let call = DeadLetterCall(
            keys: [entry.stream],
            consumer: consumer,
            entry: entry.name,
            letter: try letter?.encode() ?? [],
            receipt: try receipt?.encode() ?? [],
            outcomes: try outcomes?.encode() ?? [],
        )
        let answer = try await self.access.call(call, on: tag, about: entry.name) {
            isRepeated && $0.integer == 1 ? call : nil
        }
        guard try answer.number() == 1 else { return false }
        self.access.observer?.entriesAcknowledged(1, stream: entry.stream)
        if let letter { self.access.observer?.deadLetterWritten(letter.cause, stream: entry.stream) }
        return true
    }

    /// Keeps the dead letter of what its owner acknowledges by itself.
    package func keep(_ letter: DeadLetter, tag: HashTag) async throws {
        let call = KeepDeadLetterCall(keys: [StreamKeys(tag: tag).dead], letter: try letter.encode())
        _ = try await self.access.call(call, on: tag)
        self.access.observer?.deadLetterWritten(letter.cause, stream: letter.stream)
    }

    /// Returns dead letters of a shard before that entry, newest first; `+` begins with the newest.
    ///
    /// - Returns: the letters, and the entry that the next page is before; nil when there are no more.
    package func page(
        shard: Int,
        before entry: String,
        count: Int = StreamLimits.deadLettersPerReadMax,
    ) async throws -> (letters: [StoredDeadLetter], next: String?) {
        let keys = self.access.keys(shard: shard)
        let end = entry == "+" ? entry : "(\(entry)"
        let command = RedisCommand("XREVRANGE", .text(keys.dead), .text(end), "-", "COUNT", .integer(count))
        let entries = Array(try await self.access.send(command, on: keys.tag).elements())
        let letters = try entries.map { try Self.letter($0, shard) }
        return (letters, entries.count < count ? nil : try entries.last?[0].text())
    }

    /// Returns one dead letter; nil when there is none of that name.
    package func find(_ id: DeadLetterID) async throws -> StoredDeadLetter? {
        guard id.shard < self.access.keyspace.queueShards else { return nil }
        let keys = self.access.keys(shard: id.shard)
        let command = RedisCommand("XRANGE", .text(keys.dead), .text(id.entry), .text(id.entry))
        let entries = Array(try await self.access.send(command, on: keys.tag).elements())
        return try entries.first.map { try Self.letter($0, id.shard) }
    }

    private static func letter(_ entry: RESPNode, _ shard: Int) throws -> StoredDeadLetter {
        StoredDeadLetter((try? entry[1][1].blob()) ?? [], id: DeadLetterID(shard: shard, entry: try entry[0].text()))
    }

    /// The result of replaying a letter.
    package enum ReplayResult: Hashable, Sendable {
        /// The message is in its stream again; of a unit, so many recipients were planned again.
        case replayed(entry: String, plannedAgain: Int)
        /// There is no such letter, or it has been replayed or removed: perhaps by this call, which is repeated when its answer is lost.
        case gone
        /// The letter was a part of a send that has ended or is forgotten.
        case ended(state: String)
        /// Only the beginning of the message was kept.
        case truncated
        /// This version cannot read the letter.
        case unreadable
        /// Its stream does not belong to this shard.
        case misplaced
    }

    /// Brings a dead letter's message back to its stream, byte for byte, and removes the letter in the same step.
    ///
    /// A command is handled like a new one; if its first writing holds its idempotency key, the key is forgotten first. If a send has taken
    /// the key since then, the command is a duplicate, or a conflict again. Units and plans return only to a send that runs: their
    /// recipients, closed as failed when they became dead letters, are planned again, so the ledger's planned count grows by them.
    package func replay(_ stored: StoredDeadLetter) async throws -> ReplayResult {
        let (letter, keys) = (stored.letter, self.access.keys(shard: stored.id.shard))
        guard !stored.isUnreadable else { return .unreadable }
        guard !stored.isTruncated else { return .truncated }
        guard letter.stream.hasPrefix(keys.tag.description) else { return .misplaced }
        var (send, recipients): (SendKey?, Int) = (nil, 0)
        switch stored.message {
        case .command(let command):
            // The key is forgotten before the replay, because it may live in another shard. A crash in between forgets the key of a send
            // that never existed.
            let mailboxes = Mailboxes(access: self.access)
            try await mailboxes.forgetKey(of: command, origin: "\(letter.stream)/\(letter.entry)")
        case .unit(let unit): (send, recipients) = (unit.send, unit.recipients.count)
        case .plan(let planned): send = planned
        case .outcomes, .registration, .event, .receipt, .unreadable: break
        }
        let call = ReplayDeadLetterCall(
            keys: [keys.dead, letter.stream],
            entry: stored.id.entry,
            message: letter.payload,
            send: send?.description ?? "",
            recipients: recipients,
        )
        let answer = try await self.access.call(call, on: keys.tag)
        switch try answer[0].text() {
        case "replayed": return .replayed(entry: try answer[1].text(), plannedAgain: recipients)
        case "gone": return .gone
        case "ended": return .ended(state: try answer[1].text())
        default: throw StreamError.unexpected(function: ReplayDeadLetterCall.function, answer: try answer[0].text())
        }
    }

    /// Removes every dead letter that fulfils a condition. Reads all of them, part by part.
    ///
    /// - Parameters:
    ///   - pageSize: the letters that are read at once.
    ///   - announce: called before the first is removed, if there is one.
    package func remove(
        pageSize: Int = StreamLimits.deadLettersPerReadMax,
        announce: () async throws -> Void,
        where isWanted: (StoredDeadLetter) -> Bool,
    ) async throws {
        var isAnnounced = false
        for shard in 0..<self.access.keyspace.queueShards {
            var next: String? = "+"
            while let before = next {
                let page = try await self.page(shard: shard, before: before, count: pageSize)
                let ids = page.letters.filter(isWanted).map(\.id)
                next = page.next
                guard !ids.isEmpty else { continue }
                if !isAnnounced { try await announce() }
                isAnnounced = true
                _ = try await self.remove(ids)
            }
        }
    }

    /// Removes dead letters for good, and returns how many of them existed.
    package func remove(_ ids: [DeadLetterID]) async throws -> Int {
        var count = 0
        let shards = Dictionary(grouping: ids.filter { $0.shard < self.access.keyspace.queueShards }, by: \.shard)
        for (shard, ids) in shards.sorted(by: { $0.key < $1.key }) {
            let keys = self.access.keys(shard: shard)
            for first in stride(from: 0, to: ids.count, by: StreamLimits.deadLettersPerReadMax) {
                let part = ids[first..<min(first + StreamLimits.deadLettersPerReadMax, ids.count)]
                let command = RedisCommand("XDEL", [.text(keys.dead)] + part.map { .text($0.entry) })
                count += Int(try await self.access.send(command, on: keys.tag).number())
            }
        }
        return count
    }
}

struct DeadLetterCall: OwnerCall {
    static let function = "apus2_dead_letter"
    var keys: [String]
    var consumer: StreamConsumer
    var entry: EntryName
    var letter: [UInt8]
    var receipt: [UInt8]
    var outcomes: [UInt8]

    func set(_ fields: inout CallFields) {
        fields.set(self.consumer)
        fields.set("entry", self.entry.id)
        fields.set("letter", CallBytes(self.letter), default: [])
        fields.set("receipt", CallBytes(self.receipt), default: [])
        fields.set("outcomes", CallBytes(self.outcomes), default: [])
        fields.set("entry_digest", self.entry.digestText, default: "")
    }
}

struct KeepDeadLetterCall: FunctionCall {
    static let function = "apus2_keep_dead_letter"
    var keys: [String]
    var letter: [UInt8]

    func set(_ fields: inout CallFields) {
        fields.set("letter", CallBytes(self.letter))
    }
}

struct ReplayDeadLetterCall: FunctionCall {
    static let function = "apus2_replay_dead_letter"
    var keys: [String]
    var entry: String
    var message: [UInt8]
    var send: String
    var recipients: Int

    func set(_ fields: inout CallFields) {
        fields.set("entry", self.entry)
        fields.set("message", CallBytes(self.message))
        fields.set("send", self.send, default: "")
        fields.set("recipients", self.recipients, default: 0)
    }
}
