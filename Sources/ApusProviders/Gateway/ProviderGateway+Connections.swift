internal import ApusCore
internal import ApusHTTP2
internal import Logging
package import NIOCore

/// Opens, monitors and closes a gateway's connections.
extension ProviderGateway {
    /// Connects and fetches the credential, before anything is to be sent.
    package func start() {
        self.eventLoop.preconditionInEventLoop()
        precondition(self.phase == .idle, "a gateway is started once")
        self.phase = .running
        if let origins { return origins.start() }
        self.scheduleHousekeeping()
        self.askForCredential()
        self.openConnections()
    }

    /// Stops accepting requests, waits for those in flight, and closes: at the latest when the last request has timed out.
    package func drain() -> EventLoopFuture<Void> {
        self.eventLoop.preconditionInEventLoop()
        if let drained { return drained.futureResult }
        let promise = self.eventLoop.makePromise(of: Void.self)
        self.drained = promise
        self.phase = .draining
        self.housekeeper?.cancel()
        self.attemptTimer?.cancel()
        self.pool.drain()
        self.origins?.drain()
        for connection in self.connections { connection?.handler?.startDraining() }
        self.finishDrain()
        return promise.futureResult
    }

    func finishDrain() {
        guard self.phase == .draining, !self.hasLocalAnswers, self.origins?.isDrained ?? true else { return }
        // A pending attempt is not waited for: its connection closes as soon as it is made.
        guard self.connections.allSatisfy({ $0?.handler == nil }) else { return }
        self.phase = .drained
        // The delegate may be gone when that attempt ends.
        self.delegate = nil
        self.drained?.succeed(())
    }

    /// The gateway's current status.
    package var status: ProviderGatewayStatus {
        var status = ProviderGatewayStatus(
            connections: self.pool.statistics,
            isBackingOff: self.phase == .running && self.attemptTimerAt != .max,
            hasCredential: self.hasCredential || self.origins != nil,
            isHeld: self.isHeld,
            counts: self.countsSoFar,
        )
        self.origins?.add(to: &status)
        return status
    }

    /// The counts, including the bytes of open connections.
    private var countsSoFar: ProviderGatewayCounts {
        var counts = self.counts
        for connection in self.connections {
            if let handler = connection?.handler { counts.add(handler) }
        }
        return counts
    }

    // MARK: Opening

    func openConnections() {
        guard self.phase == .running, !self.isHeld, self.origins == nil else { return }
        switch self.pool.nextStep(now: Self.now()) {
        case .rest: break
        case .wait(let time):
            guard time < self.attemptTimerAt else { return }
            self.attemptTimer?.cancel()
            self.attemptTimerAt = time
            let deadline = NIODeadline.uptimeNanoseconds(time)
            self.attemptTimer = self.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) {
                self.attemptTimerAt = .max
                self.openConnections()
            }
        case .connect(let place): self.connect(place)
        }
    }

    private func connect(_ place: ConnectionPool.Place) {
        self.counts.attempts += 1
        let connection = ProviderConnection(place: place, gateway: self)
        let http2 = HTTP2ClientConfiguration(
            streamsMax: self.configuration.streamsMax,
            streamsMaxBeforeSettings: self.configuration.startsWithOneStream ? 1 : 100,
        )
        let handler: HTTP2ClientHandler
        do {
            handler = try HTTP2ClientHandler(configuration: http2, delegate: connection)
        } catch {
            return self.connectFailed(connection, error)
        }
        self.connections[place] = connection
        let start = Self.now()
        HTTP2Connector.connect(
            host: self.configuration.host,
            port: self.configuration.port,
            over: self.configuration.connectsTo,
            names: self.configuration.names,
            tls: self.tls,
            handler: handler,
            timeout: self.configuration.connectTimeout,
            on: self.eventLoop,
        ).assumeIsolated().whenComplete { result in
            switch result {
            case .success(let handshake): self.connected(connection, handler, since: start, handshake: handshake)
            case .failure(let error): self.connectFailed(connection, error)
            }
        }
    }

    private func connected(
        _ connection: ProviderConnection,
        _ handler: HTTP2ClientHandler,
        since start: UInt64,
        handshake: Int64,
    ) {
        guard handler.isOpen else {
            return self.connectFailed(connection, handler.failure ?? ChannelError.ioOnClosedChannel)
        }
        let now = Self.now()
        self.counts.handshakes += 1
        self.connectFault = nil
        self.delegate?.gateway(self, connectedWithin: Int64(clamping: now &- start), handshake: handshake)
        connection.attach(handler, credential: self.authorizationNumber, now: now)
        self.pool.connected(
            connection.place,
            streamsMax: handler.streamsMax,
            now: now,
            forbiddenSince: handler.streamsForbiddenSince?.uptimeNanoseconds
        )
        guard self.phase == .running else {
            self.pool.drain()
            return handler.close()
        }
        self.logger.debug("connected to the provider", metadata: ["host": "\(self.configuration.host)"])
        // The first PING measures the network's latency, without the provider's processing of a request.
        self.ping(connection)
        self.openConnections()
        self.roomMayHaveChanged()
    }

    private func connectFailed(_ connection: ProviderConnection, _ error: any Error) {
        self.counts.failures[ConnectFailure(error), default: 0] += 1
        self.connections[connection.place] = nil
        self.judge(connection, by: error)
        let now = Self.now()
        self.pool.connectFailed(connection.place, now: now, draw: self.draw)
        let words = ConnectFailure.words(of: error, to: self.configuration.peer)
        self.noteFault(words, now: now)
        self.logger.warning("cannot connect to the provider", metadata: ["reason": "\(words)"])
        // A refusal of our certificate has been reported.
        if connection.verdict == nil { self.delegate?.gateway(self, cannotSend: words) }
        self.openConnections()
        self.finishDrain()
    }

    /// Records why there is no connection, unless one is open. A held gateway tries no more, and its owner knows why.
    private func noteFault(_ words: String, now: UInt64) {
        guard self.pool.statistics.open == 0, !self.isHeld else { return }
        let since = self.connectFault?.since ?? self.faultBeganAt ?? now
        self.connectFault = GatewayFault(since: since, detail: words)
        self.faultBeganAt = since
    }

    // MARK: Closing

    /// Stops using a connection for new requests; another one takes its place.
    func retire(_ connection: ProviderConnection) {
        self.noteUse(of: connection)
        self.pool.retired(connection.place, now: Self.now(), draw: self.draw)
        connection.handler?.startDraining()
        self.openConnections()
    }

    /// Retires a connection that may not know a topic that was added since; a new connection would know no more.
    func retireIfOld(_ connection: ProviderConnection) {
        guard self.configuration.bindsCredentials else { return }
        let age = Self.now() &- connection.openedAt
        if age >= UInt64(self.configuration.mappingAge.nanoseconds) { self.retire(connection) }
    }

    func closed(_ connection: ProviderConnection, _ reason: HTTP2CloseReason, _ error: (any Error)?) {
        self.connections[connection.place] = nil
        self.judge(connection, by: error)
        let wasInVain = self.wasInVain(connection)
        self.noteUse(of: connection)
        if reason == .pingTimeout { self.pool.pingTimedOut(connection.place) }
        self.pool.closed(connection.place, now: Self.now(), draw: self.draw)
        switch reason {
        case .drained, .closed, .goAway: break
        case .notHTTP2, .protocolViolation, .limitExceeded, .pingTimeout, .transport, .outOfMemory:
            self.logger.notice(
                "lost a connection to the provider",
                metadata: ["host": "\(self.configuration.host)", "reason": "\(reason)"],
            )
            if wasInVain { self.failed(connection, reason) }
        }
        self.openConnections()
        self.finishDrain()
    }

    /// Lets the next fault begin anew if a connection was of use that has ended, or whose last answers are awaited while another one is opened.
    func noteUse(of connection: ProviderConnection) {
        if self.wasOfUse(connection) { self.faultBeganAt = nil }
    }

    /// Returns true for a connection that has answered anything, or has stood for long.
    private func wasOfUse(_ connection: ProviderConnection) -> Bool {
        let age = Self.now() &- connection.openedAt
        return self.pool.hasAnswered(connection.place) || age >= self.configuration.backoff.stableAfter
    }

    /// Returns true for a connection that ends before it has answered anything although there was something to send.
    ///
    /// A peer may close a connection that nobody needs, such as the spare one of express sends.
    private func wasInVain(_ connection: ProviderConnection) -> Bool {
        guard !self.pool.hasAnswered(connection.place) else { return false }
        let age = Self.now() &- connection.openedAt
        let isYoung = age < self.configuration.backoff.stableAfter
        return connection.verdict != nil || connection.hasLostRequest || (isYoung && self.isWanted)
    }

    /// Counts a connection that ended before it had answered anything as a failed attempt, and reports it.
    private func failed(_ connection: ProviderConnection, _ reason: HTTP2CloseReason) {
        let failure: ConnectFailure = reason == .pingTimeout ? .timeout : .tls
        self.counts.failures[failure, default: 0] += 1
        // A refusal of our credential has been reported.
        guard connection.verdict == nil else { return }
        let words = "\(self.configuration.peer) ended a connection before it had answered a request (\(reason))"
        self.noteFault(words, now: Self.now())
        self.delegate?.gateway(self, cannotSend: words)
    }

    // MARK: Maintenance

    private func scheduleHousekeeping() {
        let interval = self.configuration.housekeeping
        self.housekeeper = self.eventLoop.assumeIsolated().scheduleTask(in: interval) {
            self.lookAfter()
            if self.phase == .running { self.scheduleHousekeeping() }
        }
    }

    private func lookAfter() {
        guard self.phase == .running else { return }
        let now = Self.now()
        for connection in self.connections {
            guard let connection, connection.handler != nil else { continue }
            if connection.hasReceived {
                connection.hasReceived = false
                connection.receivedAt = now
            }
            let silence =
                self.pool.isBusy(connection.place) ? self.configuration.silencePing : self.configuration.idlePing
            if now &- connection.receivedAt >= UInt64(silence.nanoseconds) { self.ping(connection) }
        }
        while let place = self.pool.takeForbidden(now: now, draw: self.draw) {
            self.connections[place]?.handler?.startDraining()
            self.logger.notice(
                "the provider allows no requests on a connection; another one takes its place",
                metadata: ["host": "\(self.configuration.host)"],
            )
        }
        if let place = self.pool.takeIdle(now: now) { self.connections[place]?.handler?.startDraining() }
        if !self.isHeld, let credentialWait, credentialWait.isOver(now: self.clock.now(), uptime: now) {
            self.askForCredential()
        }
        self.openConnections()
    }

    /// Sends a PING; the connection closes itself when the peer does not answer.
    func ping(_ connection: ProviderConnection) {
        _ = connection.handler?.ping(deadline: .now() + self.configuration.pingTimeout)
    }
}
