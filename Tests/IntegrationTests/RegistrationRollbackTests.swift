import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusRedis
import ApusStore
import ApusStreams
import ApusTLS
import ApusTestKit
import NIOPosix
import Testing

/// Registrations over HTTP when a master loses its last writes.
@Suite(.serialized) struct RegistrationRollbackTests {
    private static let key = "rollback"

    @Test func `A registration that was acknowledged behind a replica survives a master that forgets its last writes`()
        async throws
    {
        var configuration = LocalClusterConfiguration()
        configuration.masters = 3
        configuration.replicas = 1
        configuration.hasRedisUsers = true
        configuration.redis.isAppendOnly = true
        configuration.keyDigest = Hexadecimal.encode(SHA256.hash(utf8: Self.key))
        configuration.keyspace = Keyspace(queueShards: 6, devicePartitions: 12)
        try await Fleet.with(configuration) { fleet in
            let redis = try #require(fleet.redisCluster)
            let (keyspace, store) = (fleet.installation.keyspace, fleet.installation.store)
            let app = try AppID(Fleet.app)
            let (registration, port) = try await fleet.startRegistration(["wait_for_replica": "true"])
            func connected(_ port: Int) async throws -> HTTPConnection {
                try await .connect(host: "127.0.0.1", port: port, on: MultiThreadedEventLoopGroup.singleton)
            }
            let connection = try await connected(port)
            // One that waits for no replica, but when a user is forgotten.
            let (hasty, hastyPort) = try await fleet.startRegistration()
            let hastyConnection = try await connected(hastyPort)
            func ask(
                _ method: String,
                _ path: String,
                _ type: String,
                _ body: String,
                on connection: HTTPConnection = connection
            ) async throws -> HTTPClientResponse {
                let headers = [("content-type", type), ("authorization", "Bearer \(Self.key)")]
                let path = "/v1/apps/\(Fleet.app)/\(path)"
                return try await connection.send(
                    HTTPClientRequest(method, path, headers: headers, body: Array(body.utf8))
                )
            }
            func token(_ number: Int) -> String { String(repeating: "0", count: 60) + String(1_000 + number) }
            func put(_ number: Int, user: String = "", tokenOf other: Int? = nil) async throws -> Int {
                let body = #"{"provider":"apns","token":"\#(token(other ?? number))","user":"\#(user)"}"#
                return try await ask("PUT", "devices/d\(number)", "application/json", body).status
            }
            // Returns the status of each line.
            func importing(_ numbers: [Int]) async throws -> [String] {
                let lines = numbers.map { #"{"device":"d\#($0)","provider":"apns","token":"\#(token($0))"}"# + "\n" }
                let answer = try await ask("POST", "devices:import", "application/x-ndjson", lines.joined())
                return String(decoding: answer.body, as: UTF8.self).split(separator: "\n").map {
                    String($0.split(separator: ",")[1])
                }
            }
            func delete(_ number: Int) async throws -> Int {
                try await ask("DELETE", "devices/d\(number)", "application/json", "").status
            }
            func forget(user: String, on connection: HTTPConnection = connection) async throws -> Int {
                try await ask("DELETE", "users/\(user)", "application/json", "", on: connection).status
            }
            func tag(_ id: String) -> HashTag {
                keyspace.tag(partition: keyspace.partition(app: Fleet.app, id: id))
            }
            let acknowledged = Array(0..<60)
            for number in acknowledged { #expect(try await put(number) == 201) }

            let victim = try await redis.owner(ofSlot: tag("d0").slot)
            let replica = try await redis.replica(of: victim)
            let endpoint = RedisCluster.endpoint(victim)
            func lies(_ tag: HashTag) -> Bool { fleet.client.topology.endpoint(forSlot: tag.slot) == endpoint }
            func isVictims(_ id: String) -> Bool { lies(tag(id)) }
            func device(_ number: Int, tokenOf other: Int) -> DeviceRegistration {
                DeviceRegistration(device: "d\(number)", provider: .apns, token: token(other))
            }
            // Devices whose records lie there, and whose tokens' owners do not; and others of which nothing lies there.
            let holders = (600..<800).filter { number in
                store.slots(app, changedBy: device(number, tokenOf: number)).map { lies($0) } == [true, false]
            }
            let takers = (800..<1_000).filter { number in
                let shard = fleet.installation.streams.home(app: Fleet.app, "d\(number)")
                return !isVictims("d\(number)") && !lies(shard.tag)
            }
            try #require(holders.count >= 2 && takers.count >= 2)
            let (holder, commandedHolder) = (holders[0], holders[1])
            let (taker, commandedTaker) = (takers[0], takers[1])
            for number in [holder, commandedHolder] { #expect(try await put(number) == 201) }
            let unheard = try #require((100..<200).first { isVictims("d\($0)") })
            // This device's record lies elsewhere, and the list of its user's devices does not.
            let other = try #require((200..<300).first { !isVictims("d\($0)") })
            let user = try #require((0..<100).map { "user-\($0)" }.first { isVictims($0) })
            let leaving = try #require((300..<400).first { isVictims("d\($0)") })
            #expect(try await put(leaving, user: "leaving") == 201)
            let removed = try #require((500..<600).first { isVictims("d\($0)") })
            #expect(try await put(removed) == 201)
            #expect(try await importing([400, 401]) == [#""status":201"#, #""status":201"#])
            replica.suspend()
            #expect(try await put(unheard) == 503)
            #expect(try await put(other, user: user) == 503)
            #expect(try await delete(removed) == 503)
            #expect(try await importing(Array(402..<412)) == Array(repeating: #""status":503"#, count: 10))
            #expect(try await forget(user: "leaving", on: hastyConnection) == 503)
            // Nothing is left to remove, but what was removed may come back.
            #expect(try await forget(user: "leaving") == 503)
            // All that the new device has is on replicas, but not that the one before it is gone.
            #expect(try await put(taker, tokenOf: holder) == 503)
            let command = RegistrationCommand(
                app: Fleet.app,
                action: .register(device(commandedTaker, tokenOf: commandedHolder))
            )
            let shard = fleet.installation.streams.home(app: Fleet.app, "d\(commandedTaker)")
            let add = RedisCommand("XADD", .text(shard.register), "*", "m", .bytes(try command.encode()))
            _ = try await fleet.client.send(add, on: shard.tag)
            for number in [taker, commandedTaker] {
                try await eventually("the record is written") {
                    try await store.get(app, DeviceID("d\(number)")) != nil
                }
            }
            for number in [holder, commandedHolder] { #expect(try await store.get(app, DeviceID("d\(number)")) == nil) }
            try await redis.rollBack(victim, to: replica)

            var lost: [Int] = []
            for number in acknowledged {
                let device = try DeviceID("d\(number)")
                try await eventually("the store answers") {
                    do {
                        if try await fleet.installation.store.get(app, device) == nil { lost.append(number) }
                        return true
                    } catch {
                        return false
                    }
                }
            }
            #expect(lost.isEmpty)
            try await eventually("the master has forgotten a removal") {
                (try? await store.get(app, DeviceID("d\(holder)"))) != nil
            }
            // The new master has no replica, and what it alone has is not acknowledged.
            #expect(try await put(unheard) == 503)
            #expect(try await put(taker, tokenOf: holder) == 503)
            try await victim.restart()
            try await eventually("the client tries again") { [200, 201].contains(try await put(unheard)) }
            try await eventually("the client tries again") { try await put(other, user: user) == 200 }
            try await eventually("the client tries again") { try await put(taker, tokenOf: holder) == 200 }
            #expect(try await store.get(app, DeviceID("d\(holder)")) == nil)
            try await eventually("the command is done again") {
                let length = try await fleet.client.send(RedisCommand("XLEN", .text(shard.register)), on: shard.tag)
                return length.root.integer == 0
            }
            #expect(try await store.get(app, DeviceID("d\(commandedHolder)")) == nil)
            try await eventually("the client tries again") { [204, 404].contains(try await delete(removed)) }
            let found = try await fleet.installation.store.devices(app, ofUser: UserID(user)).map(\.id)
            #expect(found == ["d\(other)"])
            #expect(
                try await importing(Array(402..<412)).allSatisfy { [#""status":201"#, #""status":200"#].contains($0) }
            )
            #expect(try await forget(user: "leaving") == 204)
            #expect(try await fleet.installation.store.get(app, DeviceID("d\(leaving)")) == nil)
            try await registration.terminate()
            try await hasty.terminate()
        }
    }
}
