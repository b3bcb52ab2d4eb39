package import ApusCore
package import ApusMessages
internal import ApusRedis
package import ApusStreams
package import ApusTerminal

/// Lists, replays and purges dead letters, for `apus dead`.
package struct DeadLetters: Sendable {
    private let streams: SendStreams

    /// Creates the dead letters of an installation.
    package init(_ streams: SendStreams) { self.streams = streams }

    /// Selects dead letters.
    package struct Filter: Hashable, Sendable {
        /// The app; nil for all.
        package var app: String?
        /// The cause; nil for all.
        package var cause: DeadLetter.Cause?
        /// The time before which they were given up; nil for any.
        package var before: UnixMilliseconds?

        /// Creates a filter that selects all letters.
        package init() {}

        /// True when the filter selects all letters.
        package var isEmpty: Bool { self == Filter() }

        func takes(_ letter: DeadLetter) -> Bool {
            (self.app == nil || self.app == letter.app) && (self.cause == nil || self.cause == letter.cause)
                && (self.before.map { letter.at < $0 } ?? true)
        }
    }

    /// Returns the newest selected letters of all shards. No more than these and a page of each shard are in memory at once, because each
    /// may be large.
    package func newest(_ count: Int, _ filter: Filter = Filter()) async throws -> [StoredDeadLetter] {
        let shards = self.streams.keyspace.queueShards
        let pageSize = min(count / shards + 1, StreamLimits.deadLettersPerReadMax)
        var (merge, newest) = (DeadLetterMerge(shards: shards), [StoredDeadLetter]())
        while newest.count < count {
            while let wanted = merge.wanted {
                let page = try await self.streams.deadLetters.page(
                    shard: wanted.shard,
                    before: wanted.before,
                    count: pageSize
                )
                merge.add(page.letters.filter { filter.takes($0.letter) }, next: page.next, of: wanted.shard)
            }
            guard let next = merge.next() else { break }
            newest.append(next)
        }
        return newest.sorted { DeadLetterMerge.isNewer($0, than: $1) }
    }

    /// Passes selected letters on in parts: they may be many, and each may be large.
    ///
    /// - Parameter countMax: the maximum of letters.
    package func forEachPart(
        _ filter: Filter,
        atMost countMax: Int = .max,
        _ body: ([StoredDeadLetter]) async throws -> Void,
    ) async throws {
        var count = 0
        for shard in 0..<self.streams.keyspace.queueShards {
            var next: String? = "+"
            while let before = next, count < countMax {
                let page = try await self.streams.deadLetters.page(shard: shard, before: before)
                let part = page.letters.filter { filter.takes($0.letter) }.prefix(countMax - count)
                count += part.count
                if !part.isEmpty { try await body(Array(part)) }
                next = page.next
            }
        }
    }

    /// Returns one letter; nil when there is none of that name.
    package func find(_ id: DeadLetterID) async throws -> StoredDeadLetter? {
        try await self.streams.deadLetters.find(id)
    }

    /// Returns one letter.
    ///
    /// - Throws: `CommandFailure` when there is none of that name.
    package func letter(_ id: DeadLetterID) async throws -> StoredDeadLetter {
        guard let letter = try await self.find(id) else {
            throw CommandFailure("there is no dead letter \(id): `apus dead list` lists them")
        }
        return letter
    }

    /// Returns what a replay of a letter would do, as a sentence.
    package func replayPreview(of stored: StoredDeadLetter) async throws -> String {
        var state: SendLedger.State?
        if let send = ReplayPreview.send(of: stored) {
            let keys = self.streams.keys(shard: stored.id.shard)
            state = try await self.streams.outcomes.ledger(keys.send(send), tag: keys.tag)?.state
        }
        return ReplayPreview.sentence(stored, send: state)
    }

    /// The result of replaying one letter.
    package struct Replayed: Hashable, Sendable {
        /// The letter's id.
        package var id: DeadLetterID
        /// True when its message was written to its stream again.
        package var isReplayed: Bool
        /// The result, or the reason why it was not replayed.
        package var text: String

        /// The result as JSON.
        package var json: JSONObject {
            ["id": .string("\(self.id)"), "replayed": .bool(self.isReplayed), "text": .string(self.text)]
        }

        /// Returns the result for a name that no letter has.
        package static func missing(_ id: DeadLetterID) -> Replayed {
            Replayed(id: id, isReplayed: false, text: "is not there: `apus dead list` lists those that are")
        }
    }

    /// Writes messages to their streams again, each after it was entered in the audit trail.
    package func replay(_ letters: [StoredDeadLetter], by someone: Operator) async throws -> [Replayed] {
        var results: [Replayed] = []
        for stored in letters {
            try await self.record("dead_letter.replay", of: stored, by: someone)
            let stream = stored.letter.stream
            let (isReplayed, text): (Bool, String) =
                switch try await self.streams.deadLetters.replay(stored) {
                case .replayed(let entry, 0): (true, "in \(stream) again as \(entry)")
                case .replayed(let entry, let recipients):
                    (true, "in \(stream) again as \(entry); \(recipients) recipients are planned again")
                case .gone:
                    (
                        false,
                        "is gone: it was replayed or removed meanwhile, perhaps by this very call, whose first answer was lost"
                    )
                case .ended(let state):
                    (false, "its send is \(state): only parts of a running send can be replayed. Publish a new send")
                case .truncated:
                    (
                        false,
                        "exceeded the maximum size of messages, and only its first \(Limits.deadLetterPayloadBytesMax) bytes "
                            + "were kept: publish it again"
                    )
                case .unreadable: (false, "cannot be read by this version: replay it with the version that wrote it")
                case .misplaced: (false, "names the stream \(stream), which is not one of its shard")
                }
            results.append(Replayed(id: stored.id, isReplayed: isReplayed, text: text))
        }
        return results
    }

    /// Removes letters for good, after they were entered in the audit trail, and returns their number.
    package func purge(_ letters: [StoredDeadLetter], by someone: Operator) async throws -> Int {
        for stored in letters { try await self.record("dead_letter.purge", of: stored, by: someone) }
        return try await self.streams.deadLetters.remove(letters.map(\.id))
    }

    private func record(_ action: String, of stored: StoredDeadLetter, by someone: Operator) async throws {
        let detail = stored.letter.send.isEmpty ? "" : "send \(stored.letter.send)"
        try await self.streams.audit.record(
            AuditEntry(action, of: "\(stored.id)", app: stored.letter.app, detail: detail, by: someone)
        )
    }

    /// Returns a letter as JSON, without the original bytes.
    package static func json(_ stored: StoredDeadLetter) -> JSONObject {
        let letter = stored.letter
        return [
            "id": .string("\(stored.id)"), "at_ms": .integer(letter.at.value), "cause": .string(letter.cause.name),
            "stream": .string(letter.stream), "entry": .string(letter.entry),
            "service": .string(letter.service), "app": .string(letter.app), "send": .string(letter.send),
            "deliveries": .integer(letter.deliveries), "code": .string(letter.problem.code),
            "field": .string(letter.problem.field), "detail": .string(letter.problem.detail),
            "payload_bytes": .integer(letter.payload.count),
        ]
    }

    /// Returns a letter as JSON, with the message: decoded, or its bytes in hexadecimal.
    ///
    /// - Parameter replay: what a replay would do.
    package static func fullJSON(_ stored: StoredDeadLetter, replay: String = "") -> JSONObject {
        var object = Self.json(stored)
        if !replay.isEmpty { object["replay"] = .string(replay) }
        object["truncated"] = .bool(stored.isTruncated)
        if let message = MessageSummary(stored.message) {
            object["message"] = message.value
        } else {
            object["payload_hex"] = .string(Hexadecimal.encode(stored.letter.payload))
        }
        return object
    }

    /// Returns a letter as lines, with the message.
    ///
    /// - Parameters:
    ///   - now: the current time, for ages.
    ///   - replay: what a replay would do.
    package static func lines(
        _ stored: StoredDeadLetter,
        now: UnixMilliseconds,
        replay: String = "",
    ) -> [String] {
        let letter = stored.letter
        let age = NumberText.age(milliseconds: now.milliseconds(since: letter.at))
        var lines = [
            "id:          \(stored.id)",
            "problem:     \(letter.problem)",
            "cause:       \(letter.cause.name)",
        ]
        if !stored.isUnreadable {
            lines += [
                "given up:    \(age) ago by \(letter.service), after \(NumberText.counted(letter.deliveries, "delivery", "deliveries"))",
                "from:        \(letter.stream)/\(letter.entry)",
            ]
        }
        if !letter.app.isEmpty { lines.append("app:         \(letter.app)") }
        if !letter.send.isEmpty { lines.append("send:        \(letter.send)") }
        if !replay.isEmpty { lines.append("a replay:    \(replay)") }
        let cut = stored.isTruncated ? ", the beginning of more" : ""
        lines.append("message:     \(NumberText.grouped(letter.payload.count)) bytes\(cut)")
        if let message = MessageSummary(stored.message) { return lines + message.lines.map { "  \($0)" } }
        if case .unreadable(let reason) = stored.message { lines.append("  cannot be read: \(reason)") }
        for first in stride(from: 0, to: letter.payload.count, by: 32) {
            let part = letter.payload[first..<min(first + 32, letter.payload.count)]
            lines.append("  \(Hexadecimal.encode(part))")
        }
        return lines
    }

    /// Returns letters as a table.
    ///
    /// - Parameter now: the current time, for ages.
    package static func table(_ letters: [StoredDeadLetter], now: UnixMilliseconds) -> TextTable {
        var table = TextTable(["ID", "AGE", "CAUSE", "FROM", "APP", "SEND", "PROBLEM"])
        for stored in letters {
            let letter = stored.letter
            table.add([
                "\(stored.id)", NumberText.age(milliseconds: now.milliseconds(since: letter.at)), letter.cause.name,
                letter.stream, letter.app, letter.send, "\(letter.problem)",
            ])
        }
        return table
    }
}
