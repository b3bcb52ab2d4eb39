public import ApusCore
package import ApusRedis

/// An operator's command for a send.
public enum SendControlCommand: Hashable, Sendable {
    /// Sends nothing more until the send is resumed.
    case pause
    /// Continues the send.
    case resume
    /// Stops the send for good: what is not on its way is closed as cancelled.
    case cancel
    /// Sends to at most that many recipients per second; 0 for as many as the routes allow.
    case rate(UInt32)

    /// The command's name: "pause", "resume", "cancel" or "rate".
    package var name: String {
        switch self {
        case .pause: "pause"
        case .resume: "resume"
        case .cancel: "cancel"
        case .rate: "rate"
        }
    }

    /// The command's argument in words; empty when it has none.
    package var detail: String {
        guard case .rate(let perSecond) = self else { return "" }
        return perSecond == 0 ? "as fast as its routes allow" : "\(perSecond) per second"
    }
}

extension SendControlCommand {
    /// Returns the words of the audit trail about a command that came too late, behind its own detail.
    package func detailOfRefusal(_ ledger: SendLedger) -> String {
        let reason = ledger.isCancelled || ledger.state == .cancelled ? "it was cancelled before" : "it had ended"
        return "\(self.detail.isEmpty ? "" : "\(self.detail); ")refused: \(reason)"
    }

    /// Returns true when the command is too late for a send of this ledger.
    package func isTooLate(for ledger: SendLedger) -> Bool {
        ledger.state == .done || (ledger.state == .cancelled && self != .cancel)
    }
}

/// Controls sends for operators.
public struct SendControl: Sendable {
    let access: StreamAccess

    /// The result of a command.
    public enum Result: Hashable, Sendable {
        /// The command is done; the ledger is that of the moment after it.
        case ok(SendLedger)
        /// There is no such send.
        case unknown
        /// The send is cancelled or complete, so the command came too late.
        case over(SendLedger.State)
    }

    /// A send of an app as it was found by its id.
    public struct Found: Hashable, Sendable {
        /// The keys of the shards that have it. They are several when commands with different idempotency keys have the same id: then these
        /// are reported and controlled together.
        public var places: [StreamKeys]
        /// The ledger; of several the sum.
        public var ledger: SendLedger
    }

    /// Finds the send of an app by its id, in whichever shards it is; nil when there is none.
    ///
    /// All shards are asked at once. Where one of them has the send, those whose servers are away are left out: what they have under the same
    /// id, by another idempotency key, is found when they are back.
    ///
    /// - Throws: the error of a shard whose server is away when no other has the send.
    public func find(app: String, send: String) async throws -> Found? {
        let looks = await self.looks(for: SendKey(app: app, id: send))
        var (places, ledgers, failure) = ([StreamKeys](), [SendLedger](), RedisError?.none)
        for (shard, result) in looks.sorted(by: { $0.shard < $1.shard }) {
            switch result {
            case .success(let ledger?):
                places.append(self.access.keys(shard: shard))
                ledgers.append(ledger)
            case .success(nil): continue
            case .failure(let error):
                guard error.saysServerIsAway else { throw error }
                failure = failure ?? error
            }
        }
        if let ledger = SendLedger.sum(ledgers) { return Found(places: places, ledger: ledger) }
        if let failure { throw failure }
        return nil
    }

    /// Asks each shard for its ledger of a send.
    private func looks(for send: SendKey) async -> [(shard: Int, result: Swift.Result<SendLedger?, RedisError>)] {
        typealias Look = (shard: Int, result: Swift.Result<SendLedger?, RedisError>)
        let access = self.access
        return await withTaskGroup(of: Look.self) { group in
            for shard in 0..<access.keyspace.queueShards {
                let keys = access.keys(shard: shard)
                group.addTask {
                    do throws(RedisError) {
                        return (shard, .success(try await access.ledger(keys.send(send), tag: keys.tag)))
                    } catch {
                        return (shard, .failure(error))
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
    }

    /// Finds the sends of that id, of every app that may have sent: each of them has a route. All shards must answer, or another app's could be
    /// taken for the one that is meant.
    public func find(send: String) async throws -> [Found] {
        var found: [Found] = []
        for app in try await Routes(access: self.access).apps().sorted() {
            if let one = try await self.find(app: app, send: send) { found.append(one) }
        }
        return found
    }

    /// Returns the time at which a scheduled send begins; nil when it has begun, or there is none of that id.
    package func start(of send: SendKey) async throws -> UnixMilliseconds? {
        var start: UnixMilliseconds?
        let found = try await self.find(app: send.app, send: send.id)
        for keys in found?.places ?? [] {
            for route in found?.ledger.routes ?? [] {
                let command = RedisCommand("ZSCORE", .text(keys.due), .text("\(send)/plan/\(route)"))
                let score: String? = try await self.access.send(command, on: keys.tag).string
                guard let milliseconds = score.flatMap({ Int64($0) }) else { continue }
                let due = UnixMilliseconds(milliseconds)
                start = min(start ?? due, due)
            }
        }
        return start
    }

    /// Controls a send wherever it was found, as it is controlled in one shard.
    ///
    /// - Returns: what it came to where the command was not too late, if it was not everywhere.
    public func apply(
        _ command: SendControlCommand,
        to send: SendKey,
        at places: [StreamKeys]
    ) async throws -> Result {
        var (ledgers, late) = ([SendLedger](), Result.unknown)
        for keys in places {
            let result = try await self.apply(command, to: send, at: keys)
            switch result {
            case .ok(let ledger): ledgers.append(ledger)
            case .over: late = result
            case .unknown: break
            }
        }
        return SendLedger.sum(ledgers).map { .ok($0) } ?? late
    }

    /// Controls a send in one shard. The command may be repeated without effect. What a caller left half-done is finished by the dispatchers,
    /// or by the command's repetition.
    ///
    /// The send's state changes first: afterwards no dispatcher that reports may start on another recipient. Then held entries, and for
    /// `cancel` the scheduled messages too, go back to their streams, to be sent or to be closed at once. Where there is a replica, it has
    /// the state before the call returns.
    ///
    /// - Throws: `StreamError` when no replica confirms the state in time; the command is done all the same.
    public func apply(
        _ command: SendControlCommand,
        to send: SendKey,
        at keys: StreamKeys
    ) async throws -> Result {
        var call = ControlSendCall(keys: [keys.send(send)], command: command.name)
        if case .rate(let perSecond) = command { call.ratePerSecond = perSecond }
        let (answer, isSafe) = try await self.access.confirmed(call, on: keys.tag)
        switch try answer[0].text() {
        case "ok": break
        case "none": return .unknown
        case "over": return .over(SendLedger.State(rawValue: try answer[1].text()) ?? .done)
        default: throw StreamError.unexpected(function: ControlSendCall.function, answer: try answer[0].text())
        }
        switch command {
        case .pause, .rate: break
        case .resume:
            while try await self.releaseHeld(send, tag: keys.tag) > 0 {}
        case .cancel:
            while try await self.releaseHeld(send, tag: keys.tag) > 0 {}
            var page = try await self.moveDue(of: send, tag: keys.tag, cursor: "0")
            while page.cursor != "0" { page = try await self.moveDue(of: send, tag: keys.tag, cursor: page.cursor) }
        }
        guard isSafe else { throw StreamError.unreplicated(command.name, of: send.id) }
        guard let ledger = try await self.access.ledger(keys.send(send), tag: keys.tag) else { return .unknown }
        return .ok(ledger)
    }

    /// Moves up to `countMax` held entries back to their streams.
    ///
    /// - Returns: how many are still held; -1 when the send is paused and nothing was moved.
    package func releaseHeld(
        _ send: SendKey,
        tag: HashTag,
        countMax: Int = StreamLimits.releaseBatchMax,
    ) async throws -> Int {
        let call = ReleaseHeldCall(keys: [StreamKeys(tag: tag).send(send)], limit: countMax)
        return Int(try await self.access.call(call, on: tag).number())
    }

    /// Moves the send's scheduled messages to its streams at once, and searches about `pageMax` of all scheduled messages for them.
    ///
    /// - Returns: the cursor to continue from ("0" at the end), and how many messages were moved.
    package func moveDue(
        of send: SendKey,
        tag: HashTag,
        cursor: String,
        pageMax: Int = StreamLimits.duePageMax,
    ) async throws -> (cursor: String, moved: Int) {
        let call = MoveSendDueCall(
            keys: [StreamKeys(tag: tag).due],
            send: send.description,
            cursor: cursor,
            limit: pageMax
        )
        let answer = try await self.access.call(call, on: tag)
        return (try answer[0].text(), Int(try answer[1].number()))
    }
}

extension RedisError {
    /// True when the server that was asked may be away, so that another one's answer counts without it.
    package var saysServerIsAway: Bool { self.isRetryable || self.isUnanswered }

    /// Returns what is read from one server of several; nil when that may be away, or the user of Redis may not read it.
    package static func skippingUnreadable<Value>(_ read: () async throws -> Value) async throws -> Value? {
        do {
            return try await Self.skippingForbidden(read)
        } catch let error as RedisError where error.saysServerIsAway {
            return nil
        }
    }

    /// Returns what is read; nil when the user of Redis may not read it, as a publisher's may not read what is the operators'.
    package static func skippingForbidden<Value>(_ read: () async throws -> Value) async throws -> Value? {
        do { return try await read() } catch let error as RedisError where error.code == .noPermission { return nil }
    }
}

struct ControlSendCall: FunctionCall {
    static let function = "apus2_control_send"
    var keys: [String]
    var command: String
    var ratePerSecond: UInt32 = 0

    func set(_ fields: inout CallFields) {
        fields.set("command", self.command)
        fields.set("rate_per_second", self.ratePerSecond, default: 0)
    }
}

struct ReleaseHeldCall: FunctionCall {
    static let function = "apus2_release_held"
    var keys: [String]
    var limit: Int

    func set(_ fields: inout CallFields) {
        fields.set("limit", self.limit)
    }
}

struct MoveSendDueCall: FunctionCall {
    static let function = "apus2_move_send_due"
    var keys: [String]
    var send: String
    var cursor: String
    var limit: Int

    func set(_ fields: inout CallFields) {
        fields.set("send", self.send)
        fields.set("cursor", self.cursor)
        fields.set("limit", self.limit)
    }
}
