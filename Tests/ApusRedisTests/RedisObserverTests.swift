import ApusRedis
import ApusTestKit
import Logging
import NIOPosix
import Synchronization
import Testing

/// Writes down what it is told.
private final class Notebook: RedisObserver {
    struct Command: Hashable {
        var name: String
        var ending: RedisCommandEnding
        var isTimed: Bool
    }

    private let state = Mutex((commands: [Command](), made: 0, again: 0, ended: 0))

    var commands: [Command] { self.state.withLock { $0.commands } }
    var made: Int { self.state.withLock { $0.made } }
    var again: Int { self.state.withLock { $0.again } }
    var ended: Int { self.state.withLock { $0.ended } }

    func commandEnded(_ name: String, _ ending: RedisCommandEnding, nanoseconds: Int64?) {
        #expect(nanoseconds ?? 0 >= 0)
        self.state.withLock {
            $0.commands.append(Command(name: name, ending: ending, isTimed: nanoseconds != nil))
        }
    }

    func connectionMade(isAgain: Bool) {
        self.state.withLock { state in
            state.made += 1
            if isAgain { state.again += 1 }
        }
    }

    func connectionEnded() { self.state.withLock { $0.ended += 1 } }
}

@Suite struct RedisObserverTests {
    private let tag = HashTag("q1")

    private func withObserved(_ body: (RedisServer, RedisClient, Notebook) async throws -> Void) async throws {
        try await RedisServer.with { server in
            var configuration = try RedisConfiguration(url: server.url, clientName: "apus-tests")
            configuration.requestTimeout = .seconds(1)
            let notebook = Notebook()
            let client = try RedisClient(
                configuration: configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton.next(),
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
                observer: notebook,
            )
            do {
                try await body(server, client, notebook)
            } catch {
                await client.close()
                throw error
            }
            await client.close()
            #expect(notebook.made == notebook.ended, "a connection that was made ends once")
        }
    }

    @Test func `Each command is reported with its name, its result and its duration`() async throws {
        try await self.withObserved { _, client, notebook in
            _ = try await client.send(RedisCommand("SET", "{q1}k", "v"), on: self.tag)
            await expectError(.wrongType) { _ = try await client.send(RedisCommand("XLEN", "{q1}k"), on: self.tag) }
            await expectError(.functionMissing) {
                _ = try await client.call("nothing", on: self.tag, keys: ["{q1}k"], readOnly: true)
            }
            #expect(
                notebook.commands.suffix(3) == [
                    .init(name: "set", ending: .answered, isTimed: true),
                    .init(name: "xlen", ending: .refused, isTimed: true),
                    .init(name: "fcall_ro", ending: .refused, isTimed: true),
                ]
            )
            #expect(notebook.made == 1)
            #expect(notebook.again == 0)
        }
    }

    @Test func `A read that may block is reported without its duration`() async throws {
        try await self.withObserved { _, client, notebook in
            let connection = client.blockingConnection(for: self.tag)
            let read = RedisCommand("XREAD", "BLOCK", 10, "STREAMS", "{q1}s", "0")
            _ = try await connection.send(read, blocking: .milliseconds(10))
            _ = try await connection.send(RedisCommand("XLEN", "{q1}s"), blocking: .zero)
            await connection.close()
            #expect(
                notebook.commands.suffix(2) == [
                    .init(name: "xread", ending: .answered, isTimed: false),
                    .init(name: "xlen", ending: .answered, isTimed: true),
                ]
            )
        }
    }

    @Test func `A frozen server is reported as a timeout, and the next connection as a new one`() async throws {
        try await self.withObserved { server, client, notebook in
            _ = try await client.send(RedisCommand("SET", "{q1}k", "1"), on: self.tag)
            server.suspend()
            await expectError(.timedOut) { _ = try await client.send(RedisCommand("GET", "{q1}k"), on: self.tag) }
            #expect(notebook.commands.last == .init(name: "get", ending: .timedOut, isTimed: true))
            try await eventually("the loss is told") { notebook.ended == 1 }
            server.resume()
            let patient = RedisClient.Options(isIdempotent: true, patience: .seconds(60))
            _ = try await client.send(RedisCommand("GET", "{q1}k"), on: self.tag, options: patient)
            #expect(notebook.made == 2)
            #expect(notebook.again == 1)
        }
    }

    @Test func `A command that waits when the server dies is reported as disconnected`() async throws {
        try await self.withObserved { server, client, notebook in
            let connection = client.blockingConnection(for: self.tag)
            let read = RedisCommand("XREAD", "BLOCK", 30_000, "STREAMS", "{q1}s", "0")
            let answer = Task { try await connection.send(read, blocking: .seconds(30)) }
            try await server.untilClientBlocks()
            await server.kill()
            await expectError(.disconnected) { _ = try await answer.value }
            #expect(notebook.commands.last == .init(name: "xread", ending: .disconnected, isTimed: false))
            await connection.close()
        }
    }
}
