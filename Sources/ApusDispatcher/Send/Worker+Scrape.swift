internal import ApusCore
internal import ApusMessages
internal import ApusMetrics
internal import ApusProviders
internal import ApusStreams
internal import NIOCore

extension Worker {
    /// Counts the results of a report in bulk. Only latencies are recorded once per notification.
    func count(_ taken: RecipientRun.Taken, _ active: ActiveRun) {
        let app = self.routes[active.plan.context.number]?.slot(
            of: active.plan.context.route.app,
            in: self.metrics.apps
        )
        for count in taken.report.counts(provider: active.run.terms.provider) {
            let amount = Int64(clamping: count.count)
            self.shard[self.metrics.deliveries[count.provider, count.outcome]] += amount
            let ending = ProviderOutcome(count.provider, count.outcome)
            self.shard[self.metrics.appDeliveries[app ?? .other, ending]] += amount
        }
        for reason in taken.retryReasons { self.shard[self.metrics.retries[active.run.terms.provider, reason]] += 1 }
    }

    /// Collects the state and the totals of the gateways. Called before each scrape.
    func collect() {
        for provider in Provider.allCases {
            let routes = self.routes.values.filter { $0.provider == provider }
            self.collect(provider, routes)
            let statuses = routes.flatMap(\.statuses)
            self.collect(provider, statuses)
            self.collect(provider, routes.flatMap(\.counts))
        }
    }

    /// Returns for each route that cannot be sent to for how long that has been so, and why: there is no connection, there is no credential, or
    /// the provider fails; see ``CircuitBreaker/failingNanoseconds(now:)``.
    func failures(now: UInt64) -> [RouteNumber: RouteFailure] {
        var failures: [RouteNumber: RouteFailure] = [:]
        for route in self.routes.values {
            if let fault = route.gatewayFault {
                let nanoseconds = now - min(now, fault.since)
                failures[route.number] = RouteFailure(nanoseconds, fault.detail, isUnreachable: true)
            } else if let nanoseconds = route.circuit.failingNanoseconds(now: now) {
                failures[route.number] = RouteFailure(nanoseconds, route.lastFailure, isUnreachable: false)
            }
        }
        return failures
    }

    /// Sets the gauges of connections and streams.
    private func collect(_ provider: Provider, _ statuses: [ProviderGatewayStatus]) {
        for state in ConnectionState.allCases {
            self.shard[self.metrics.connections[provider, state]] = statuses.reduce(0) { $0 + Int64($1.count(state)) }
        }
        for standing in OriginStanding.allCases {
            self.shard[self.metrics.origins[provider, standing]] = statuses.reduce(0) {
                $0 + Int64($1.origins[standing] ?? 0)
            }
        }
        self.shard[self.metrics.streamsInFlight[provider]] = statuses.reduce(0) {
            $0 + Int64($1.connections.inFlight)
        }
        self.shard[self.metrics.streamsLimit[provider]] = statuses.reduce(0) {
            $0 + Int64($1.connections.streamsLimit)
        }
    }

    /// Sets the totals of the gateways.
    private func collect(_ provider: Provider, _ counts: [GatewayTotals]) {
        func total(_ count: (GatewayTotals) -> UInt64) -> Int64 { counts.reduce(0) { $0 + Int64(clamping: count($1)) } }
        self.shard[self.metrics.payloadTotal[provider]] = total(\.payloadBytes)
        self.shard[self.metrics.bytes[provider, .sent]] = total(\.bytesSent)
        self.shard[self.metrics.bytes[provider, .received]] = total(\.bytesReceived)
        for code in GoAwayCode.allCases {
            self.shard[self.metrics.goAways[provider, code]] = total { $0.goAways[code] ?? 0 }
        }
        self.shard[self.metrics.connectionAttempts[provider, .ok]] = total(\.handshakes)
        for failure in ConnectFailure.allCases {
            self.shard[self.metrics.connectionAttempts[provider, ConnectionAttempt(failure)]] = total {
                $0.failures[failure] ?? 0
            }
        }
    }

    func gateway(_ gateway: ProviderGateway, cannotSend detail: String) {
        // While another connection is open, the notifications go on.
        guard gateway.hasFailingOrigin || gateway.status.connections.open == 0 || !gateway.status.hasCredential else {
            return
        }
        self.record(connectionFault: detail, of: gateway)
    }

    private func record(connectionFault detail: String?, of gateway: ProviderGateway) {
        guard let route = self.routes.values.first(where: { $0.isSentWith(gateway) }) else { return }
        route.rateLimit.bucket.record(connectionFault: detail)
        if route.rateLimit.hasNews { route.rateLimit.need(hurry: false) }
    }

    func gateway(_ gateway: ProviderGateway, connectedWithin nanoseconds: Int64, handshake: Int64) {
        let provider = gateway.configuration.provider
        if gateway.status.hasCredential, !gateway.hasFailingOrigin { self.record(connectionFault: nil, of: gateway) }
        self.shard.observe(nanoseconds, in: self.metrics.connectDuration[provider])
        self.shard.observe(handshake, in: self.metrics.handshakeDuration[provider])
    }

    func gateway(_ gateway: ProviderGateway, pingAnsweredWithin nanoseconds: Int64) {
        self.shard.observe(nanoseconds, in: self.metrics.pingDuration[gateway.configuration.provider])
    }

    /// Records how long a run waited for its first request.
    func noteFirstRequest(of active: ActiveRun, now: NIODeadline) {
        active.hasSent = true
        active.firstSentAt = now
        let waited = (now - active.startedAt).nanoseconds
        self.shard.observe(waited, in: self.metrics.stageDuration[.queue])
    }

    /// Records how long a run took from its first request to its last answer.
    func noteLastAnswer(of active: ActiveRun, now: NIODeadline) {
        guard let firstSentAt = active.firstSentAt else { return }
        active.firstSentAt = nil
        self.shard.observe((now - firstSentAt).nanoseconds, in: self.metrics.stageDuration[.send])
    }

    private func collect(_ provider: Provider, _ routes: [RouteSender]) {
        var circuits: [CircuitLabel: Int64] = [:]
        var unwritten: Int64 = 0
        for route in routes {
            unwritten += Int64(route.window.unwritten)
            circuits[CircuitLabel(route.circuit.state), default: 0] += 1
            for (cause, nanoseconds) in route.takeThrottled(now: .now()) {
                self.shard[self.metrics.throttled[provider, cause]] += nanoseconds
            }
        }
        self.shard[self.metrics.inFlight[provider]] = unwritten
        self.shard[self.metrics.rateLevels[provider]] = routes.reduce(0) {
            $0 + Int64(($1.rateLimit.bucket.grant.level * 1_000).rounded())
        }
        for label in CircuitLabel.allCases { self.shard[self.metrics.circuits[provider, label]] = circuits[label] ?? 0 }
    }
}

/// The failure of a route, as one worker sees it.
struct RouteFailure: Sendable {
    /// The time since when it has been failing.
    let milliseconds: Int64
    /// The provider's last reason, or why there is no connection or no credential.
    let word: String
    /// True when there is no connection or no credential.
    let isUnreachable: Bool

    init(_ nanoseconds: UInt64, _ word: String, isUnreachable: Bool) {
        self.milliseconds = Int64(clamping: nanoseconds / 1_000_000)
        self.word = word
        self.isUnreachable = isUnreachable
    }
}

extension ProviderGatewayStatus {
    fileprivate func count(_ state: ConnectionState) -> Int {
        switch state {
        case .connecting: self.connections.connecting
        case .open: self.connections.open
        case .draining: self.connections.draining
        case .backoff: self.isBackingOff ? 1 : 0
        }
    }
}

extension CircuitLabel {
    fileprivate init(_ state: CircuitBreaker.State) {
        self =
            switch state {
            case .closed: .closed
            case .open: .open
            case .halfOpen: .halfOpen
            }
    }
}
