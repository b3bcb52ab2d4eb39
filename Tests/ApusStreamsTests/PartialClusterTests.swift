import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusTestKit
import Logging
import NIOPosix
import Testing

@testable import ApusStreams

/// Tests what is known of sends, and may be done with them, while a master of the cluster is away.
@Suite(.serialized) struct PartialClusterTests {
    /// A cluster of three masters, of which the first goes away.
    private struct Partial {
        let streams: SendStreams
        let victim: RedisServer

        /// Returns true for keys on the master that goes away.
        func isLost(_ keys: StreamKeys) -> Bool {
            self.streams.client.topology.endpoint(forSlot: keys.tag.slot) == RedisCluster.endpoint(self.victim)
        }

        /// Returns a text that places a command on the master that goes away, or on another one.
        func text(_ prefix: String, isLost: Bool) throws -> String {
            let texts = (0..<64).map { "\(prefix)\($0)" }
            return try #require(texts.first { self.isLost(self.streams.home(app: "shop", $0)) == isLost })
        }

        func command(id: String, key: String = "") -> SendCommand {
            var command = SendCommand(app: "shop", target: .topic("news"), notification: Notification())
            (command.id, command.idempotencyKey) = (id, key)
            return command
        }

        /// Takes a command as a planned send. Returns its home.
        func accept(_ command: SendCommand) async throws -> StreamKeys {
            let home = self.streams.home(of: SendIdentity(of: command, source: ""))
            let entry = StreamEntry(stream: home.mailbox(.bulk), id: "1-1", message: try command.encode())
            let result = try await self.streams.mailboxes.accept(
                command,
                identity: SendIdentity(of: command, source: entry.source),
                routes: [RouteNumber(7)],
                from: entry,
                by: StreamConsumer(group: StreamGroup.dispatcher, name: "me"),
                due: nil,
            )
            #expect(result.admission == .new)
            return home
        }

        /// Publishes a direct send and writes its receipt.
        func finish(_ id: String) async throws {
            let command = self.command(id: id)
            guard case .new = try await self.streams.mailboxes.publish(command, lane: .express) else {
                throw Unexpected("not new")
            }
            let receipt = SendReceipt(id: "final:shop/\(id)", send: id, app: "shop", kind: .final)
            let tag = self.streams.home(app: "shop", id).tag
            #expect(try await self.streams.outcomes.write(receipt, replyTo: "", tag: tag) == nil)
        }

        func phase(_ id: String) async throws -> SendStatus.Phase? {
            let now = UnixMilliseconds(1_000_000_000_000)
            return try await self.streams.outcomes.status(app: AppID("shop"), send: SendID(id), now: now)?.phase
        }
    }

    /// - Parameter patience: the time that each call to the master that is away takes, unless it has its own.
    private static func with(
        patience: Duration = .seconds(3),
        _ body: (Partial) async throws -> Void,
    ) async throws {
        var options = RedisServer.Options()
        options.settings["cluster-require-full-coverage"] = "no"
        try await RedisCluster.with(masters: 3, replicas: 0, options) { cluster in
            var configuration = try RedisConfiguration(url: cluster.url)
            func client() throws -> RedisClient {
                try RedisClient(
                    configuration: configuration,
                    eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                    logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                )
            }
            let keyspace = Keyspace(queueShards: 16, devicePartitions: 4)
            let patient = try client()
            try await Installation.initialize(patient, keyspace: keyspace)
            await patient.close()
            configuration.patience = patience
            configuration.connectTimeout = .seconds(20)
            configuration.requestTimeout = .seconds(60)
            let hasty = try client()
            let streams = SendStreams(client: hasty, keyspace: keyspace)
            try await eventually("all masters are known") {
                (try? await streams.control.find(app: "shop", send: "none")) == .some(nil)
            }
            try await body(Partial(streams: streams, victim: cluster.masters[0]))
            await hasty.close()
        }
    }

    @Test func `A send of a living master is found and controlled, wherever its id alone would put it`() async throws {
        try await Self.with { partial in
            let (control, outcomes) = (partial.streams.control, partial.streams.outcomes)
            let key = try partial.text("k", isLost: false)
            let commands = [
                partial.command(id: try partial.text("s", isLost: false)),
                partial.command(id: try partial.text("s", isLost: true), key: key),
            ]
            var homes: [StreamKeys] = []
            for command in commands { homes.append(try await partial.accept(command)) }
            let unknown = try [false, true].map { try partial.text("nobody", isLost: $0) }
            await partial.victim.kill()
            for (command, home) in zip(commands, homes) {
                let found = try #require(try await control.find(app: "shop", send: command.id))
                #expect(found.places == [home])
                let send = SendKey(app: "shop", id: command.id)
                guard case .ok = try await control.apply(.pause, to: send, at: found.places) else {
                    throw Unexpected("not paused")
                }
                #expect(try await outcomes.ledger(app: "shop", send: command.id)?.state == .paused)
                #expect(try await partial.phase(command.id) == .paused)
            }
            // The master that is away may have them.
            for id in unknown {
                await #expect(throws: RedisError.self) { try await control.find(app: "shop", send: id) }
                await #expect(throws: RedisError.self) { try await partial.phase(id) }
            }
        }
    }

    @Test(.timeLimit(.minutes(5)))
    func `What a send depends on is told at once without what lies on the master that is away`() async throws {
        try await Self.with(patience: .seconds(3_600)) { partial in
            let streams = partial.streams
            try await streams.processes.report(
                "d",
                service: "dispatcher",
                version: "1",
                uptimeMilliseconds: 1,
                problem: nil
            )
            var numbers: [RouteNumber] = []
            for index in 0..<16 {
                let route = try #require(Route("app\(index)/apns/production"))
                numbers.append(try await streams.routes.number(of: route))
            }
            let living = numbers.filter { !partial.isLost(streams.access.keys(ofRoute: $0)) }
            #expect(!living.isEmpty && living.count < numbers.count)
            let whole = try await SendDependencies(of: "shop", routes: numbers, in: streams)
            #expect(whole.processes?.map(\.name) == ["d"] && whole.routes.map(\.route.number) == numbers)
            // The first master has the list of processes, and the second that of routes.
            await partial.victim.kill()
            let rest = try await SendDependencies(of: "shop", routes: numbers, in: streams)
            #expect(rest.processes == nil && rest.routes.map(\.route.number) == living)
            await #expect(throws: RedisError.self) { try await streams.processes.stopped(patience: .seconds(1)) }
        }
    }

    @Test func `The home of a direct send alone tells its status`() async throws {
        try await Self.with { partial in
            let (ended, waiting) = (try partial.text("d", isLost: false), try partial.text("w", isLost: false))
            try await partial.finish(ended)
            let command = partial.command(id: waiting)
            guard case .new = try await partial.streams.mailboxes.publish(command, lane: .express) else {
                throw Unexpected("not new")
            }
            await partial.victim.kill()
            #expect(try await partial.phase(ended) == .done)
            #expect(try await partial.phase(waiting) == .waiting)
        }
    }
}
