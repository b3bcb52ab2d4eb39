package import ApusRedis

/// Reads new entries of one shard's streams for one consumer.
///
/// Missing groups are created from `0`, so that nothing written before is passed over. Redis wakes a blocked reader for one stream at a
/// time; the caller decides on the order between streams by what it asks for.
package struct StreamReader: Sendable {
    private let client: RedisClient
    private let tag: HashTag
    private let consumer: StreamConsumer

    /// Creates a reader of that shard.
    package init(client: RedisClient, tag: HashTag, consumer: StreamConsumer) {
        self.client = client
        self.tag = tag
        self.consumer = consumer
    }

    /// Creates the group on each of the streams, and the streams, where they are missing; returns how many were missing. It works on a full
    /// Redis too.
    ///
    /// - Throws: when one of the streams cannot have the group; the others have it then.
    @discardableResult
    package func ensure(_ streams: [String]) async throws -> Int {
        var made = 0
        var failure: RedisError?
        for first in stride(from: 0, to: streams.count, by: StreamLimits.streamsPerReadMax) {
            let part = streams[first..<min(first + StreamLimits.streamsPerReadMax, streams.count)]
            do throws(RedisError) {
                let call = CreateGroupsCall(keys: Array(part), group: self.consumer.group)
                let reply = try await self.client.call(call, on: self.tag)
                made += Int(try reply.root.number())
            } catch {
                guard error.code == .wrongType || error.code == .server else { throw error }
                failure = error
            }
        }
        if let failure { throw failure }
        return made
    }

    /// Returns up to `count` new entries of a stream without waiting, over the shared connection.
    package func read(
        _ stream: String,
        count: Int,
        server: RedisServerIdentity? = nil,
    ) async throws -> [StreamEntry] {
        let command = self.command([stream], count: count, blockMilliseconds: 0)
        return try Self.entries(
            await self.client.send(command, on: self.tag, options: .init(server: server)),
            of: [stream]
        )
    }

    /// Returns up to `count` new entries of each stream, and waits that long for the first one.
    ///
    /// Throws `RedisError` with `.noGroup` or `.unblocked` when a stream or its group has vanished: the caller calls `ensure`, counts the
    /// loss, and continues.
    package func read(
        _ streams: [String],
        count: Int,
        blockMilliseconds: Int,
        on connection: RedisBlockingConnection,
        server: RedisServerIdentity? = nil,
    ) async throws -> [StreamEntry] {
        let reply = try await connection.send(
            self.command(streams, count: count, blockMilliseconds: blockMilliseconds),
            blocking: .milliseconds(blockMilliseconds),
            server: server,
        )
        return try Self.entries(reply, of: streams)
    }

    private func command(_ streams: [String], count: Int, blockMilliseconds: Int) -> RedisCommand {
        precondition(!streams.isEmpty && streams.count <= StreamLimits.streamsPerReadMax)
        let isBlocking = blockMilliseconds > 0
        var encoder = RESPEncoder(
            argumentCount: 7 + (isBlocking ? 2 : 0) + 2 * streams.count,
            reservingBytes: streams.reduce(128) { $0 + $1.utf8.count + 16 },
        )
        encoder.append("XREADGROUP")
        encoder.append("GROUP")
        encoder.append(self.consumer.group)
        encoder.append(self.consumer.name)
        encoder.append("COUNT")
        encoder.append(Int64(count))
        if isBlocking {
            encoder.append("BLOCK")
            encoder.append(Int64(blockMilliseconds))
        }
        encoder.append("STREAMS")
        for stream in streams { encoder.append(stream) }
        for _ in streams { encoder.append(">") }
        return RedisCommand(encoder, label: "xreadgroup")
    }

    private static func entries(_ reply: RESPReply, of streams: [String]) throws(RedisError) -> [StreamEntry] {
        var entries: [StreamEntry] = []
        for stream in try reply.root.elements() {
            let key = try stream.at(0).text()
            guard streams.contains(key) else { throw reply.unexpected("entries of a stream that was asked for") }
            for entry in try stream.at(1).elements() {
                entries.append(try Self.entry(entry, of: key))
            }
        }
        return entries
    }

    /// Returns an entry with the value of the first field `m`, which is empty (as no message is) when there is none.
    private static func entry(_ node: RESPNode, of stream: String) throws(RedisError) -> StreamEntry {
        var fields = try node.at(1).elements().makeIterator()
        var message: [UInt8]?
        var admittedDigest: [UInt8]?
        while let name = fields.next(), let value = fields.next() {
            switch name.withBytes({ $0.count == 1 ? $0[0] : 0 }) {
            case UInt8(ascii: "m"): if message == nil { message = try value.blob() }
            case UInt8(ascii: "a"):
                let digest = try value.blob()
                // In a mailbox of a publisher's own anybody's word stands there.
                let isTrusted = !StreamKeys.isOwnMailbox(stream)
                if isTrusted, digest.count == SendIdentity.digestBytes { admittedDigest = digest }
            default: break
            }
        }
        return StreamEntry(
            stream: stream,
            id: try node.at(0).text(),
            message: message ?? [],
            admittedDigest: admittedDigest,
        )
    }
}
