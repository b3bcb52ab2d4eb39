internal import Logging
internal import NIOCore

/// Manages a connection that is opened on first use and reopened after a loss. Confined to one event loop.
final class ReconnectingConnection {
    private enum State {
        /// No connection was needed yet. Can become `waiting`, `connecting` or `closed`.
        case idle
        /// The next attempt is due at the given time. Can become `connecting` or `closed`.
        case waiting(until: NIODeadline, Scheduled<Void>, EventLoopPromise<RedisConnection>)
        /// An attempt is under way. Can become `open`, `idle` or `closed`.
        case connecting(EventLoopPromise<RedisConnection>)
        /// The connection is open. Can become `idle` or `closed`.
        case open(RedisConnection, since: NIODeadline)
        /// The owner has closed it.
        case closed
    }

    private let endpoint: RedisEndpoint
    private let configuration: RedisConfiguration
    /// The topology that confirms, before each attempt, that the server is a master; nil when none needs to.
    private let topology: (any RedisTopology)?
    /// The topology that is told of attempts; nil for none.
    private let reported: (any RedisTopology)?
    private let security: RedisSecurity
    private let observer: (any RedisObserver)?
    private let eventLoop: any EventLoop
    private let logger: Logger
    private var state: State = .idle
    private var waiters = 0
    private var failures = 0
    /// The earliest time of the next attempt, set at each failure, so that callers without patience also find it due eventually.
    private var notBefore = NIODeadline.uptimeNanoseconds(0)
    private var lastError = RedisError(.notConnected, "no attempt yet")
    /// The reason that was logged last: an outage writes one line, not one for each attempt.
    private var loggedCode: RedisError.Code?
    /// The beginning of the outage: its end writes one line too.
    private var lostAt: NIODeadline?
    /// True when a connection existed and was lost, for the observer's count of reconnections.
    private var wasLost = false

    init(
        endpoint: RedisEndpoint,
        configuration: RedisConfiguration,
        confirming topology: (any RedisTopology)? = nil,
        reportingTo reported: (any RedisTopology)? = nil,
        security: RedisSecurity,
        observer: (any RedisObserver)?,
        eventLoop: any EventLoop,
        logger: Logger,
    ) {
        self.endpoint = endpoint
        self.configuration = configuration
        self.topology = topology
        self.reported = reported
        self.security = security
        self.observer = observer
        self.eventLoop = eventLoop
        self.logger = logger
    }

    /// The observer of connections. Where masters are confirmed, one that was made without that carries no work, and is not reported.
    private var connectionObserver: (any RedisObserver)? {
        self.topology == nil && self.reported?.confirmsMasters == true ? nil : self.observer
    }

    /// The open connection; nil when there is none right now.
    var live: RedisConnection? {
        guard case .open(let connection, _) = self.state, connection.isOpen else { return nil }
        return connection
    }

    /// Returns a connection as soon as there is one.
    ///
    /// Fails with the reason of the last failure when the next attempt is not due before `deadline`, and when that attempt fails.
    func connection(notAfter deadline: NIODeadline) -> EventLoopFuture<RedisConnection> {
        self.eventLoop.assertInEventLoop()
        if case .open(let connection, let since) = self.state {
            if connection.isOpen { return self.eventLoop.makeSucceededFuture(connection) }
            // The connection is closing; its future completes later in this turn, but the next connection need not wait for that.
            self.lost(connection, since: since)
        }
        switch self.state {
        case .idle:
            let isDue = self.notBefore <= self.eventLoop.now
            guard isDue || self.notBefore <= deadline else { return self.eventLoop.makeFailedFuture(self.lastError) }
            let promise = self.eventLoop.makePromise(of: RedisConnection.self)
            self.waiters = 1
            if isDue {
                self.connect(promise)
            } else {
                let due = self.notBefore
                let scheduled = self.eventLoop.assumeIsolated().scheduleTask(deadline: due) { self.connect(promise) }
                self.state = .waiting(until: due, scheduled, promise)
            }
            return promise.futureResult
        case .waiting(let due, _, let promise):
            guard due <= deadline else { return self.eventLoop.makeFailedFuture(self.lastError) }
            return self.join(promise)
        case .connecting(let promise):
            return self.join(promise)
        case .open, .closed:
            return self.eventLoop.makeFailedFuture(RedisError(.closed, "the client is closed"))
        }
    }

    /// Closes the connection for good.
    func close() -> EventLoopFuture<Void> {
        let closed = RedisError(.closed, "the client is closed")
        switch self.state {
        case .idle, .closed:
            self.state = .closed
        case .waiting(_, let scheduled, let promise):
            scheduled.cancel()
            self.state = .closed
            promise.fail(closed)
        case .connecting(let promise):
            self.state = .closed
            return promise.futureResult.map { _ in }.recover { _ in }
        case .open(let connection, _):
            self.state = .closed
            self.connectionObserver?.connectionEnded()
            return connection.close()
        }
        return self.eventLoop.makeSucceededVoidFuture()
    }

    /// Discards the connection if it has at least the given age, because its server is not the right one or does not answer.
    func discard(_ connection: RedisConnection, olderThan age: TimeAmount = .zero, because error: RedisError) {
        guard case .open(let current, let since) = self.state, current === connection,
            self.eventLoop.now - since >= age
        else { return }
        connection.close(error)
        self.lost(connection, since: since)
    }

    private func join(_ promise: EventLoopPromise<RedisConnection>) -> EventLoopFuture<RedisConnection> {
        guard self.waiters < RedisLimits.connectionWaitersMax else {
            let text = "\(RedisLimits.connectionWaitersMax) callers already wait for a connection"
            return self.eventLoop.makeFailedFuture(RedisError(.full, text))
        }
        self.waiters += 1
        return promise.futureResult
    }

    private func connect(_ promise: EventLoopPromise<RedisConnection>) {
        self.state = .connecting(promise)
        let confirmed = self.topology?.confirmMaster(self.endpoint, on: self.eventLoop)
        (confirmed ?? self.eventLoop.makeSucceededVoidFuture()).assumeIsolated().flatMap {
            RedisConnection.connect(
                to: self.endpoint,
                configuration: self.configuration,
                security: self.security,
                observer: self.observer,
                mustBeMaster: self.topology != nil,
                on: self.eventLoop,
            )
        }.whenComplete { result in
            switch result {
            case .success(let connection): self.connected(connection, promise)
            case .failure(let error): self.failed(RedisError(error), promise)
            }
        }
    }

    private func connected(_ connection: RedisConnection, _ promise: EventLoopPromise<RedisConnection>) {
        guard case .connecting = self.state else {
            // The owner closed this object while the connection was made.
            connection.close().assumeIsolated().whenComplete { _ in
                promise.fail(RedisError(.closed, "the client is closed"))
            }
            return
        }
        let now = self.eventLoop.now
        if let lostAt = self.lostAt {
            let milliseconds = (now - lostAt).nanoseconds / 1_000_000
            self.logger.notice(
                "redis is back",
                metadata: ["server": "\(self.endpoint)", "down_ms": "\(milliseconds)", "attempts": "\(self.failures)"],
            )
            self.lostAt = nil
            self.loggedCode = nil
        }
        self.state = .open(connection, since: now)
        self.reported?.connectionAttempted(to: self.endpoint, isMade: true)
        self.connectionObserver?.connectionMade(isAgain: self.wasLost)
        connection.closeFuture.assumeIsolated().whenComplete { _ in self.lost(connection, since: now) }
        promise.succeed(connection)
    }

    private func failed(_ error: RedisError, _ promise: EventLoopPromise<RedisConnection>) {
        guard case .connecting = self.state else {
            promise.fail(RedisError(.closed, "the client is closed"))
            return
        }
        self.failures += 1
        self.lastError = error
        self.reported?.connectionAttempted(to: self.endpoint, isMade: false)
        self.delayNextAttempt()
        self.lostAt = self.lostAt ?? self.eventLoop.now
        if self.loggedCode != error.code {
            self.loggedCode = error.code
            self.logger.warning(
                "redis cannot be reached",
                metadata: ["server": "\(self.endpoint)", "error": "\(error)"],
            )
        }
        self.state = .idle
        promise.fail(error)
    }

    private func lost(_ connection: RedisConnection, since: NIODeadline) {
        guard case .open(let current, _) = self.state, current === connection else { return }
        let now = self.eventLoop.now
        let livedLong = now - since >= TimeAmount(self.configuration.reconnect.stableAfter)
        self.failures = livedLong ? 1 : self.failures + 1
        self.lastError = RedisError(.notConnected, "the connection was lost")
        self.delayNextAttempt()
        self.lostAt = now
        self.wasLost = true
        self.connectionObserver?.connectionEnded()
        self.logger.warning(
            "redis connection lost",
            metadata: ["server": "\(self.endpoint)", "reason": "\(connection.closeReason?.message ?? "unknown")"],
        )
        self.state = .idle
    }

    private func delayNextAttempt() {
        let wait = self.configuration.reconnect.wait(
            failures: self.failures,
            credentialsRefused: self.lastError.isCredentials,
            draw: Double.random(in: 0..<1),
        )
        self.notBefore = self.eventLoop.now + TimeAmount(wait)
    }
}
