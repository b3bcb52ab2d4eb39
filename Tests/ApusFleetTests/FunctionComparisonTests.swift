import ApusCore
import ApusFleet
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStore
import ApusStreams
import Logging
import NIOPosix
import Testing

@Suite struct FunctionComparisonTests {
    /// Performs random calls of the product on an installation, as registrations, publishers, dispatchers and operators make them.
    private static func work(on url: String, seed: UInt64, steps: Int) async throws {
        let client = try RedisClient(
            configuration: RedisConfiguration(url: url),
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: Logger(label: "fleet-tests") { _ in SwiftLogNoOpLogHandler() },
        )
        do {
            try await Self.work(on: client, seed: seed, steps: steps)
        } catch {
            await client.close()
            throw error
        }
        await client.close()
    }

    private static func work(on client: RedisClient, seed: UInt64, steps: Int) async throws {
        try await Installation.initialize(client, keyspace: Keyspace(queueShards: 1, devicePartitions: 2))
        let installation = try await Installation(client, clock: SystemClock())
        let (streams, store, app) = (installation.streams, installation.store, try AppID("shop"))
        let (keys, consumer) = (streams.keys(shard: 0), StreamConsumer(group: "dispatchers", name: "one"))
        let reader = StreamReader(client: client, tag: keys.tag, consumer: consumer)
        try await reader.ensure(Lane.allCases.map { keys.mailbox($0) })
        var generator = SeededGenerator(seed: seed)
        func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &generator) }
        for _ in 0..<steps {
            let device = "phone-\(pick(20))"
            let lane = Lane.allCases[pick(Lane.allCases.count)]
            switch pick(6) {
            case 0, 1:
                let token = Hexadecimal.encode([UInt8](repeating: UInt8(pick(20)), count: 32))
                var registration = DeviceRegistration(device: device, provider: .apns, token: token)
                registration.user = ["", "ada", "bob"][pick(3)]
                registration.topics = (0..<pick(4)).map { _ in "topic-\(pick(8))" }
                _ = try await store.register(app, registration)
            case 2: _ = try await store.find(app, devices: [try DeviceID(device)])
            case 3:
                var notification = Notification()
                notification.title = "\(pick(3))"
                var command = SendCommand(app: "shop", target: .devices([device]), notification: notification)
                command.id = "send-\(pick(40))"
                if pick(3) == 0 { command.idempotencyKey = "key-\(pick(10))" }
                _ = try await streams.mailboxes.publish(command, lane: lane)
            case 4:
                for entry in try await reader.read(keys.mailbox(lane), count: 3) {
                    let command = try SendCommand.decode(entry.message)
                    let identity = SendIdentity(of: command, source: entry.source)
                    _ = try await streams.mailboxes.accept(
                        command,
                        identity: identity,
                        routes: [RouteNumber(1)],
                        from: entry,
                        by: consumer,
                        due: nil,
                    )
                }
            default:
                _ = try await streams.entries.count(of: keys.mailbox(lane), tag: keys.tag)
                _ = try await streams.routes.number(of: Route(app: app, provider: .apns, environment: .production))
            }
        }
    }

    @Test func `The product's functions have the same replies and leave the same keys in the model and in Redis`()
        async throws
    {
        let first = UInt64.random(in: 0..<1_000_000_000)
        for seed in first..<(first + 3) {
            let tape = try await withServedModel(seed: seed) { url in
                try await Self.work(on: url, seed: seed, steps: 300)
            }
            let functions = Set(tape.compactMap(\.function))
            #expect(
                functions.isSuperset(of: ["apus2_publish", "apus2_accept_send", "apus2_put_devices"]),
                "\(functions)"
            )
            try await ReferenceServer.with(now: CommandComparison.start) { reference in
                try await CommandComparison.replay(tape, on: reference)
            }
        }
    }

    @Test func `A function that may not run at a full Redis is refused by the model, and one that may runs`()
        async throws
    {
        let model = RedisModel(seed: 1)
        func execute(_ words: String...) -> ModelReply {
            model.execute(words.map { Array($0.utf8) }, now: CommandComparison.start)
        }
        let text = """
            #!lua name=sample
            redis.register_function{function_name = 'new', callback = function(keys) return redis.call('SET', keys[1], 'x') end}
            redis.register_function{function_name = 'end', flags = {'allow-oom'}, callback = function(keys) return redis.call('DEL', keys[1]) end}
            """
        #expect(execute("FUNCTION", "LOAD", text) == .bulk(Array("sample".utf8)))
        #expect(execute("FCALL", "new", "1", "a") == .status("OK"))
        model.isMadeFull = true
        guard case .error(let refusal) = execute("FCALL", "new", "1", "b") else {
            Issue.record("a full Redis takes new data")
            return
        }
        #expect(refusal.hasPrefix("OOM"))
        #expect(execute("FCALL", "end", "1", "a") == .integer(1))
    }

    @Test func `A snapshot brings back what was there before, and a key ends with its time`() {
        let model = RedisModel(seed: 1)
        let start = CommandComparison.start
        func execute(_ text: String, at now: Int64 = start) -> ModelReply {
            model.execute(text.split(separator: " ").map { Array($0.utf8) }, now: now)
        }
        _ = execute("SET a 1 PX 100")
        let snapshot = model.database
        _ = execute("SET b 2")
        #expect(execute("GET b") == .bulk(Array("2".utf8)))
        model.database = snapshot
        #expect(execute("GET b") == .null)
        #expect(execute("GET a", at: start + 99_000) == .bulk(Array("1".utf8)))
        #expect(execute("GET a", at: start + 101_000) == .null)
    }
}
