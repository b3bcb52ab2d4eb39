internal import ApusTLS
internal import HummingbirdCore
internal import Logging
internal import NIOCore

/// Serves HTTP/1.1 over TLS: our TLS handler lies below Hummingbird's channel.
struct TLSListener: ServerChildChannel {
    typealias Value = HTTP1Channel.Value

    let base: HTTP1Channel
    /// The current context: a new certificate is used for new connections.
    let context: @Sendable () -> TLSContext

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
        channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.addHandler(try TLSHandler(server: self.context()))
        }.flatMap { self.base.setup(channel: channel, logger: logger) }
    }

    func handle(value: Value, logger: Logger) async { await self.base.handle(value: value, logger: logger) }
}
