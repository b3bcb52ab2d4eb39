internal import ApusStreams
internal import ApusTLS
internal import HummingbirdCore
internal import Logging
internal import NIOCore
internal import NIOHTTP1

/// Prepares connections: limits to what a client may take, TLS, and HTTP/1.1 above them. Each is handled on its own event loop.
struct APIListener: ServerChildChannel {
    typealias Value = HTTP1Channel.Value

    let base: HTTP1Channel
    /// The current TLS context: a new certificate is used for new connections. Nil for plain HTTP.
    let tls: (@Sendable () -> TLSContext)?
    /// The connections of each address; nil for no limit.
    let addresses: AddressCounts?
    /// Counts a connection that is refused because its address has too many.
    let refused: @Sendable () -> Void

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        channel.eventLoop.makeCompletedFuture {
            try channel.syncOptions?.setOption(.socketOption(.so_sndbuf), value: APILimits.sendBufferBytes)
            guard let context = self.tls?() else { return }
            try channel.pipeline.syncOperations.addHandler(try TLSHandler(server: context))
        }.flatMap {
            self.base.setup(channel: channel, logger: logger)
        }.flatMapThrowing { value in
            let pipeline = channel.pipeline.syncOperations
            // Below TLS: its handshake takes a client's time, too.
            try pipeline.addHandler(try pipeline.handler(type: RequestGuard.self).makeByteHandler(), position: .first)
            let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
            try pipeline.addHandler(OldRequestFilter(), position: .after(decoder))
            self.limit(channel)
            return value
        }
    }

    /// Closes the connection if its address has too many. It is set up nonetheless, since a set-up that fails ends the server.
    private func limit(_ channel: any Channel) {
        guard let addresses, let address = AddressCounts.Address(channel.remoteAddress) else { return }
        if addresses.enter(address) {
            channel.closeFuture.whenComplete { _ in addresses.leave(address) }
        } else {
            self.refused()
            channel.close(promise: nil)
        }
    }

    func handle(value: Value, logger: Logger) async {
        await withTaskExecutorPreference(LoopExecutor(value.channel.eventLoop)) {
            await self.base.handle(value: value, logger: logger)
        }
    }
}
