import ApusCore
import ApusHTTP2
import ApusTLS
import Foundation
import Logging
import NIOCore
import NIOPosix
import Synchronization

/// A provider over TLS on a free port of this machine that does what a closure says. All its connections live on one loop.
final class FakeProvider: Sendable {
    typealias Answer = @Sendable (FakeConnection, HTTP2Request) -> Void

    let channel: any Channel
    let loop: any EventLoop
    let trust: TLSContext
    private let connections: NIOLoopBound<FakeConnections>

    private init(
        channel: any Channel,
        loop: any EventLoop,
        trust: TLSContext,
        connections: NIOLoopBound<FakeConnections>
    ) {
        self.channel = channel
        self.loop = loop
        self.trust = trust
        self.connections = connections
    }

    var port: Int { self.channel.localAddress?.port ?? 0 }

    /// Starts a provider.
    ///
    /// - Parameters:
    ///   - clientCA: the authorities that it takes clients' certificates from; nil to ask for none.
    ///   - certificate: the certificate that its clients show.
    static func start(
        _ configuration: HTTP2ServerConfiguration = HTTP2ServerConfiguration(),
        alpn: [String] = ["h2"],
        clientCA: TLSTrust? = nil,
        certificate: TLSIdentity? = nil,
        answer: @escaping Answer,
    ) async throws -> FakeProvider {
        let now = UnixMilliseconds(Int64(Date().timeIntervalSince1970 * 1_000))
        let authority = try CertificateAuthority(name: "Test root", validity: CertificateValidity(from: now))
        let identity = try authority.issue(
            CertificateProfile(
                .server,
                commonName: "localhost",
                dnsNames: ["localhost"],
                ipAddresses: ["127.0.0.1"],
                validity: CertificateValidity(from: now),
            )
        )
        let server = try TLSContext.server(identity: identity, alpn: alpn, clientCA: clientCA)
        let loop = MultiThreadedEventLoopGroup.singleton.next()
        let connections = try await loop.submit { NIOLoopBound(FakeConnections(), eventLoop: loop) }.get()
        let channel = try await ServerBootstrap(group: loop)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let connection = FakeConnection(number: connections.value.connections.count, answer: answer)
                    let handler = try HTTP2ServerHandler(configuration: configuration, delegate: connection)
                    connection.handler = handler
                    connection.channel = channel
                    connections.value.connections.append(connection)
                    try channel.pipeline.syncOperations.addHandler(TLSHandler(server: server))
                    try channel.pipeline.syncOperations.addHandler(handler)
                }
            }
            .bind(host: "127.0.0.1", port: 0)
            .get()
        return FakeProvider(
            channel: channel,
            loop: loop,
            trust: try .client(trust: .pem(authority.certificatePEM), certificate: certificate, alpn: ["h2"]),
            connections: connections,
        )
    }

    /// Looks at its connections, in the order in which they were made.
    func look<Result: Sendable>(_ body: @escaping @Sendable ([FakeConnection]) -> Result) async throws -> Result {
        let connections = self.connections
        return try await self.loop.submit { body(connections.value.connections) }.get()
    }

    func stop() async throws {
        try await self.look { for connection in $0 { connection.handler?.close() } }
        try await self.channel.close()
    }
}

final class FakeConnections {
    var connections: [FakeConnection] = []
}

/// One connection, as the fake provider sees it.
final class FakeConnection: HTTP2ServerDelegate {
    let number: Int
    fileprivate(set) var handler: HTTP2ServerHandler?
    fileprivate var channel: (any Channel)?
    private(set) var requests = 0
    private(set) var isClosed = false
    /// Streams that wait for whoever answers later.
    var held: [Int32] = []
    private let answer: FakeProvider.Answer

    init(number: Int, answer: @escaping FakeProvider.Answer) {
        self.number = number
        self.answer = answer
    }

    /// The most requests that were open at a time.
    var openMax: Int { self.handler?.streamsOpenMax ?? self.lastOpenMax }
    private var lastOpenMax = 0

    func http2(_ handler: HTTP2ServerHandler, received event: HTTP2ServerEvent) {
        switch event {
        case .requested(let request):
            self.requests += 1
            self.answer(self, request)
        case .closed:
            self.isClosed = true
            self.lastOpenMax = handler.streamsOpenMax
            self.handler = nil
            self.channel = nil
        case .cancelled, .settingsAcknowledged, .pingAcknowledged, .goAway: break
        }
    }

    /// Reads nothing any more: not even a PING.
    func goDeaf() { _ = self.channel?.setOption(ChannelOptions.autoRead, value: false) }

    func respond(_ request: HTTP2Request, _ status: Int, _ body: String = "") {
        self.handler?.respond(to: request.streamID, HTTP2Response(status: status, body: Array(body.utf8)))
    }
}

/// A number that is counted up from any thread.
final class Tally: Sendable {
    private let value = Mutex(0)

    @discardableResult
    func add() -> Int {
        self.value.withLock {
            $0 += 1
            return $0
        }
    }

    var count: Int { self.value.withLock { $0 } }
}

struct TestClock: WallClock {
    func nanosecondsSince1970() -> Int64 { Int64(Date().timeIntervalSince1970 * 1_000_000_000) }
}

/// Sends nothing.
let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
