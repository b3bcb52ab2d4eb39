internal import Logging
internal import NIOCore

/// A connection for reads that block, such as `XREADGROUP … BLOCK`: while one waits, nothing else would be answered.
///
/// One command at a time, by one caller. It is made at the first read and made again after a loss: then a read waits for
/// the next attempt, so that a loop of reads never turns hot.
public final class RedisBlockingConnection: Sendable {
    private let eventLoop: any EventLoop
    private let requestTimeout: Duration
    private let connection: NIOLoopBoundBox<ReconnectingConnection>

    init(
        endpoint: RedisEndpoint,
        configuration: RedisConfiguration,
        security: RedisSecurity,
        observer: (any RedisObserver)?,
        eventLoop: any EventLoop,
        logger: Logger,
    ) {
        self.eventLoop = eventLoop
        self.requestTimeout = configuration.requestTimeout
        let connection = ReconnectingConnection(
            endpoint: endpoint,
            configuration: configuration,
            security: security,
            observer: observer,
            eventLoop: eventLoop,
            logger: logger,
        )
        self.connection = .makeBoxSendingValue(connection, eventLoop: eventLoop)
    }

    /// Sends a command that may block.
    ///
    /// - Parameters:
    ///   - command: what; with a `BLOCK` of its own, 1-2 s: so a shutdown and a dead server are noticed.
    ///   - blocking: how long it may block; the configuration's `requestTimeout` comes on top.
    /// - Returns: the answer; null when nothing came.
    /// - Throws: as `RedisConnection.send`. `disconnected` and `timedOut` mean that entries may have been delivered to a
    ///   reader that never saw them: they lie in the group's pending list.
    public func send(_ command: RedisCommand, blocking: Duration) async throws(RedisError) -> RESPReply {
        let timeout = TimeAmount(blocking + self.requestTimeout)
        do {
            return try await self.eventLoop.flatSubmit {
                self.connection.value.connection(notAfter: .distantFuture).flatMap {
                    $0.submit(command, timeout: timeout, mayBlock: blocking > .zero)
                }
            }.get()
        } catch {
            let error = RedisError(error)
            if error.code == .readOnly || error.code == .masterDown { await self.renounce(error) }
            throw error
        }
    }

    /// Closes it; a read that waits fails with `disconnected`.
    public func close() async {
        _ = try? await self.eventLoop.flatSubmit { self.connection.value.close() }.get()
    }

    private func renounce(_ error: RedisError) async {
        _ = try? await self.eventLoop.submit {
            guard let live = self.connection.value.live else { return }
            self.connection.value.renounce(live, because: error)
        }.get()
    }
}
