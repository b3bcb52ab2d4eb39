internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// Forwards between clients and a redis-server, and answers in the server's place on request: with every error that a
/// server can give, and with replies that no server should give.
///
/// Replies keep the order of their commands: outstanding replies of the server precede the proxy's. The proxy
/// understands RESP2 without inline commands.
package final class RedisProxy: Sendable {
    /// The treatments of commands that reach the proxy.
    package enum Behavior: Sendable {
        /// The server answers the command.
        case forward
        /// The proxy answers with these bytes, one whole RESP2 reply; the server never sees the command.
        case answer(String)
        /// The command gets no answer; the server never sees it.
        case ignore
        /// The proxy closes the connection.
        case close
    }

    /// Every error that a server can give to whatever it is asked, and replies of a shape that no command has.
    package static let faultReplies = [
        "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n",
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-READONLY You can't write against a read only replica.\r\n",
        "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n",
        "-CLUSTERDOWN The cluster is down\r\n",
        "-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
        "-MOVED 1 127.0.0.1:1\r\n",
        "-ASK 1 127.0.0.1:1\r\n",
        "-NOREPLICAS Not enough good replicas to write.\r\n",
        "-MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.\r\n",
        "-OOM command not allowed when used memory > 'maxmemory'.\r\n",
        "-NOAUTH Authentication required.\r\n",
        "-WRONGPASS invalid username-password pair or user is disabled.\r\n",
        "-NOPERM this user has no permissions to run the 'xreadgroup' command\r\n",
        "-NOGROUP No such key or consumer group\r\n",
        "-UNBLOCKED the stream key no longer exists\r\n",
        "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n",
        "-ERR Function not found\r\n",
        "-ERR max number of clients reached\r\n",
        "-ERR something else\r\n",
        ":7\r\n",
        ":-1\r\n",
        ":9223372036854775807\r\n",
        "*7\r\n" + String(repeating: ":9223372036854775807\r\n", count: 7),
        "+OK\r\n",
        "$-1\r\n",
        "$3\r\nabc\r\n",
        "*0\r\n",
        "*1\r\n:1\r\n",
        "*2\r\n:1\r\n:2\r\n",
        "*1\r\n*2\r\n$1\r\ns\r\n:1\r\n",
        "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n:5\r\n",
        "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n:5\r\n:6\r\n",
        "!no RESP2\r\n",
    ]

    /// The behavior of the proxy, and the commands that it applies to.
    fileprivate struct Rule: Sendable {
        var behavior = Behavior.forward
        /// The names of the commands in capitals; nil for all.
        var commands: Set<String>?
    }

    fileprivate final class Rules: Sendable {
        private let rule = Mutex(Rule())
        private let answered = Mutex(0)
        private let destination: Mutex<Int>

        init(port: Int) { self.destination = Mutex(port) }

        /// The port of the server that new connections lead to.
        var port: Int {
            get { self.destination.withLock { $0 } }
            set { self.destination.withLock { $0 = newValue } }
        }

        func set(_ rule: Rule) {
            self.rule.withLock { $0 = rule }
            self.answered.withLock { $0 = 0 }
        }

        func behavior(for command: String) -> Behavior {
            let rule = self.rule.withLock { $0 }
            guard rule.commands?.contains(command) ?? true else { return .forward }
            if case .forward = rule.behavior { return .forward }
            self.answered.withLock { $0 += 1 }
            return rule.behavior
        }

        var count: Int { self.answered.withLock { $0 } }
    }

    private let channel: any Channel
    private let rules: Rules

    private init(channel: any Channel, rules: Rules) {
        self.channel = channel
        self.rules = rules
    }

    /// Listens on a free port of the loopback for clients of the server at `port`.
    package static func start(to port: Int) async throws -> RedisProxy {
        let rules = Rules(port: port)
        let channel = try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .childChannelOption(.autoRead, value: false)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(RedisProxyHandler(port: rules.port, rules: rules))
                }
            }
            .bind(host: "127.0.0.1", port: 0)
            .get()
        return RedisProxy(channel: channel, rules: rules)
    }

    /// The address for clients.
    package var url: String { "redis://127.0.0.1:\(self.channel.localAddress?.port ?? 0)" }

    /// The number of commands that were not forwarded since the last call of `set`.
    package var interceptedCount: Int { self.rules.count }

    /// Applies a behavior to commands of the given names (in capitals; nil for all); others are forwarded.
    package func set(_ behavior: Behavior, for commands: Set<String>? = nil) {
        self.rules.set(Rule(behavior: behavior, commands: commands))
    }

    /// Leads the connections that are made from now on to the server at another port; those that exist stay with theirs.
    package func redirect(to port: Int) { self.rules.port = port }

    /// Stops accepting connections.
    package func stop() async { try? await self.channel.close().get() }
}

/// Handles one connection of a client and the proxy's own to the server.
private final class RedisProxyHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// The source of a command's reply.
    private enum Answer {
        case server
        case proxy(String)
        case nobody
    }

    private let port: Int
    private let rules: RedisProxy.Rules
    private var server: (any Channel)?
    private var fromClient = ByteBuffer()
    private var fromServer = ByteBuffer()
    private var answers: CircularBuffer<Answer> = []

    init(port: Int, rules: RedisProxy.Rules) {
        self.port = port
        self.rules = rules
    }

    func channelActive(context: ChannelHandlerContext) {
        let client = context.channel
        let this = NIOLoopBound(self, eventLoop: context.eventLoop)
        ClientBootstrap(group: context.eventLoop)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let upstream = RedisProxyUpstream(client: client) { this.value.receiveFromServer($0, client) }
                    try channel.pipeline.syncOperations.addHandler(upstream)
                }
            }
            .connect(host: "127.0.0.1", port: self.port)
            .assumeIsolated()
            .whenComplete { result in
                switch result {
                case .success(let channel):
                    self.server = channel
                    client.setOption(.autoRead, value: true).whenFailure { _ in client.close(promise: nil) }
                    client.read()
                case .failure: client.close(promise: nil)
                }
            }
    }

    func channelInactive(context: ChannelHandlerContext) { self.server?.close(promise: nil) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = self.unwrapInboundIn(data)
        self.fromClient.writeBuffer(&bytes)
        while let length = RESPLength.ofFirst(in: self.fromClient.readableBytesView),
            let command = self.fromClient.readSlice(length: length)
        {
            switch self.rules.behavior(for: Self.name(of: command)) {
            case .forward:
                self.answers.append(.server)
                self.server?.writeAndFlush(command, promise: nil)
            case .answer(let reply): self.answers.append(.proxy(reply))
            case .ignore: self.answers.append(.nobody)
            case .close: return context.close(promise: nil)
            }
        }
        self.answer(context.channel)
    }

    private func receiveFromServer(_ bytes: ByteBuffer, _ client: any Channel) {
        var bytes = bytes
        self.fromServer.writeBuffer(&bytes)
        self.answer(client)
    }

    /// Sends available replies, in the order of the commands.
    private func answer(_ client: any Channel) {
        while let next = self.answers.first {
            switch next {
            case .server:
                guard let length = RESPLength.ofFirst(in: self.fromServer.readableBytesView),
                    let reply = self.fromServer.readSlice(length: length)
                else { return client.flush() }
                client.write(reply, promise: nil)
            case .proxy(let reply): client.write(ByteBuffer(string: reply), promise: nil)
            case .nobody: return client.flush()
            }
            self.answers.removeFirst()
        }
        client.flush()
    }

    /// Returns the first word of a command in capitals.
    private static func name(of command: ByteBuffer) -> String {
        let lines = String(buffer: command).split(separator: "\r\n", maxSplits: 3, omittingEmptySubsequences: false)
        return lines.count > 2 ? lines[2].uppercased() : ""
    }
}

private final class RedisProxyUpstream: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let client: any Channel
    private let receive: (ByteBuffer) -> Void

    init(client: any Channel, _ receive: @escaping (ByteBuffer) -> Void) {
        self.client = client
        self.receive = receive
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) { self.receive(self.unwrapInboundIn(data)) }

    func channelInactive(context: ChannelHandlerContext) { self.client.close(promise: nil) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }
}

/// Measures RESP2 values without parsing their contents.
private enum RESPLength {
    /// Returns the number of bytes of the first value; nil when it is incomplete.
    static func ofFirst(in bytes: ByteBufferView) -> Int? {
        guard let end = Self.end(of: bytes, from: bytes.startIndex) else { return nil }
        return end - bytes.startIndex
    }

    private static func end(of bytes: ByteBufferView, from start: Int) -> Int? {
        guard start < bytes.endIndex, let lineEnd = bytes[start...].firstIndex(of: 0x0a) else { return nil }
        let number = Int(String(decoding: bytes[(start + 1)..<(lineEnd - 1)], as: UTF8.self)) ?? 0
        var position = lineEnd + 1
        switch bytes[start] {
        case UInt8(ascii: "$"):
            if number >= 0 { position += number + 2 }
            return position <= bytes.endIndex ? position : nil
        case UInt8(ascii: "*"):
            for _ in 0..<max(0, number) {
                guard let end = Self.end(of: bytes, from: position) else { return nil }
                position = end
            }
            return position
        default: return position
        }
    }
}
