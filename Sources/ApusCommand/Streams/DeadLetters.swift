package import ApusCore
package import ApusMessages
internal import ApusRedis
package import ApusStreams

/// What could not be handled, newest first: `apus dead list`.
package struct DeadLetters: Sendable {
    private let streams: SendStreams

    /// The dead letters of an installation.
    package init(_ streams: SendStreams) { self.streams = streams }

    /// The newest letters of all shards.
    package func newest(_ count: Int) async throws -> [DeadLetter] {
        var letters: [DeadLetter] = []
        for shard in 0..<self.streams.keyspace.queueShards {
            let keys = self.streams.keys(shard: shard)
            let command = RedisCommand("XREVRANGE", .text(keys.dead), "+", "-", "COUNT", .integer(count))
            let reply = try await self.streams.client.send(command, on: keys.tag, options: .idempotent)
            for entry in reply.root.children {
                guard let bytes = entry.element(1)?.element(1)?.bytes, let letter = try? DeadLetter.decode(bytes) else {
                    continue
                }
                letters.append(letter)
            }
        }
        return Array(letters.sorted { ($1.at, $0.entry) < ($0.at, $1.entry) }.prefix(count))
    }

    /// As JSON, without the original bytes.
    package static func json(_ letter: DeadLetter) -> JSONObject {
        [
            "at_ms": .integer(letter.at.value), "cause": .string(letter.cause.name),
            "stream": .string(letter.stream), "entry": .string(letter.entry),
            "service": .string(letter.service), "app": .string(letter.app), "send": .string(letter.send),
            "deliveries": .integer(letter.deliveries), "code": .string(letter.problem.code),
            "field": .string(letter.problem.field), "detail": .string(letter.problem.detail),
            "payload_bytes": .integer(letter.payload.count),
        ]
    }

    /// As a table.
    ///
    /// - Parameter now: ages are told from it.
    package static func table(_ letters: [DeadLetter], now: UnixMilliseconds) -> TextTable {
        var table = TextTable(["AGE", "CAUSE", "FROM", "APP", "SEND", "PROBLEM"])
        for letter in letters {
            table.add([
                NumberText.age(milliseconds: now.milliseconds(since: letter.at)), letter.cause.name,
                "\(letter.stream)/\(letter.entry)", letter.app, letter.send, "\(letter.problem)",
            ])
        }
        return table
    }
}
