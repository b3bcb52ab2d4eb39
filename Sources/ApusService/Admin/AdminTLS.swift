internal import ApusTLS
internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import ServiceLifecycle
internal import Synchronization

/// Holds the TLS context of the admin endpoints: a new certificate is used for new connections.
final class AdminTLS: Sendable {
    private let state: Mutex<TLSContext>

    /// Reads the files.
    init(_ settings: ServerTLSSettings) throws {
        self.state = Mutex(try settings.context(for: AdminSettings.tlsKey))
    }

    /// The current context.
    var context: TLSContext { self.state.withLock { $0 } }

    /// Reads the files again; what cannot be used changes nothing.
    func reload(_ settings: ServerTLSSettings) throws {
        let context = try settings.context(for: AdminSettings.tlsKey)
        self.state.withLock { $0 = context }
    }
}

/// Reads the certificate of the admin endpoints again when the configuration is taken over.
struct AdminTLSReloader<Own: ServiceSettings>: Service {
    let tls: AdminTLS
    let settings: LiveSettings<Own>
    let updates: AsyncStream<Settings<Own>>
    let logger: Logger

    func run() async throws {
        await cancelWhenGracefulShutdown {
            for await settings in self.updates {
                guard let files = settings.common.admin.tls else { continue }
                do {
                    try self.tls.reload(files)
                    self.settings.refuse(.adminTLS, because: nil)
                } catch {
                    self.settings.refuse(.adminTLS, because: "\(error)")
                    self.logger.error(
                        "the new certificate of the admin endpoints was refused: the old one stays in use",
                        metadata: ["error": "\(error)"]
                    )
                }
            }
        }
    }
}

/// Prepares connections to the admin endpoints: their limits, TLS where it is configured, and HTTP/1.1 above it.
struct AdminListener: ServerChildChannel {
    typealias Value = HTTP1Channel.Value

    let base: HTTP1Channel
    let connections = AdminConnections()
    /// Nil for plain HTTP.
    let tls: AdminTLS?

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        channel.eventLoop.makeCompletedFuture {
            guard let context = self.tls?.context else { return }
            try channel.pipeline.syncOperations.addHandlers(
                try TLSHandler(server: context),
                ClientCertificateHandler(),
            )
        }.flatMap {
            self.base.setup(channel: channel, logger: logger)
        }.flatMapThrowing { value in
            let pipeline = channel.pipeline.syncOperations
            // Below TLS: its handshake takes a client's time, too.
            try pipeline.addHandler(try pipeline.handler(type: AdminGuard.self).makeByteHandler(), position: .first)
            // Only now: a set-up that fails ends the server.
            self.connections.enter(channel)
            return value
        }
    }

    /// Creates the HTTP of a connection, with its limits.
    static func http(_ responder: @escaping HTTPChannelHandler.Responder) -> HTTP1Channel {
        var configuration = HTTP1Channel.Configuration(additionalChannelHandlers: [AdminGuard()])
        configuration.httpDecoder.maxHeaderFieldSize = AdminLimits.headerFieldBytesMax
        configuration.httpDecoder.maxHeaderListSize = AdminLimits.headerBytesMax
        configuration.httpDecoder.maxHeaderFieldCount = AdminLimits.headerFieldsMax
        return HTTP1Channel(responder: responder, configuration: configuration)
    }

    func handle(value: Value, logger: Logger) async { await self.base.handle(value: value, logger: logger) }
}

/// Notes whether the client of a connection has shown a certificate; the handshake has verified it then.
final class ClientCertificateHandler: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer

    private let shown = Atomic(false)

    /// True once a certificate was shown.
    var hasCertificate: Bool { self.shown.load(ordering: .relaxed) }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let handshake = event as? TLSHandshakeCompleted, handshake.peerCertificate != nil {
            self.shown.store(true, ordering: .relaxed)
        }
        context.fireUserInboundEventTriggered(event)
    }
}
