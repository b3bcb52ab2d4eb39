internal import ApusCore
internal import ApusProviders
internal import ApusStreams
internal import NIOCore

/// Rates of single sends, and permits as they come.
extension Worker {
    /// How many recipients of the run's send the whole fleet may reach per second; 0: as many as can be.
    func setRate(_ token: RunToken, perSecond: Double) {
        guard let active = self.active(token) else { return }
        self.setRate(perSecond, of: active)
        self.enqueue(active)
        if let route = active.route { self.feed(route, active.plan.lane) }
    }

    func setRate(_ perSecond: Double, of active: ActiveRun) {
        precondition(perSecond >= 0)
        guard perSecond > 0 else { return self.leavePace(active) }
        if let pace = active.pace {
            pace.beat.ratePerSecond = perSecond
            return
        }
        // Two apps' sends may have the same id, in shards of their own.
        let limiter = active.plan.send.limiter
        let pace = self.paces[limiter] ?? SendPace(beat: self.beat(of: limiter, ratePerSecond: perSecond))
        self.paces[limiter] = pace
        pace.beat.ratePerSecond = perSecond
        pace.join(active)
    }

    func leavePace(_ active: ActiveRun) {
        guard let pace = active.pace else { return }
        pace.leave(active)
        guard pace.runs == 0 else { return }
        pace.beat.stop()
        self.paces[active.plan.send.limiter] = nil
    }
}

extension SendContext {
    /// What keeps the whole fleet to the send's rate.
    fileprivate var limiter: Limiter { Limiter(ofSend: self.send, tag: self.tag) }
}

extension Worker {
    /// One has asked for all who wait for the provider's partner: by its answer they go out, or wait on.
    func goOn(_ active: ActiveRun, _ route: RouteSender, _ outcome: DeliveryOutcome) {
        if RecipientRun.tellsOfPartner(outcome) { route.beat.permits.heard(partnerFault: nil) }
        self.enqueue(active)
        guard active.isQueued else { return }
        self.eventLoop.assumeIsolated().execute { self.feed(route, active.plan.lane) }
    }
}

extension Worker: LeaseBeatUser {
    /// How long broadcasts wait whose own host refuses the credential.
    static let broadcastsWait: TimeAmount = .minutes(5)

    func gateway(_ gateway: ProviderGateway, heldFor word: String) {
        // One that leaves, or has yet to take over, says nothing of the credential in use.
        guard let route = self.routes.values.first(where: { $0.isSentWith(gateway) }) else { return }
        guard !route.lines.contains(where: { $0.giveWay(gateway) }) else { return }
        guard !route.holdsBroadcasts(gateway) else {
            self.eventLoop.assumeIsolated().scheduleTask(in: Self.broadcastsWait) { gateway.mended() }
            return
        }
        route.beat.permits.heard(RouteFault(.credential, word))
        route.beat.need(hurry: false)
    }

    func waiting(for beat: LeaseBeat) -> Int {
        let now = NIODeadline.now().uptimeNanoseconds
        if let pace = self.paces.values.first(where: { $0.beat === beat }) {
            return min(self.settings.window, pace.recipients)
        }
        return self.routes.values.first { $0.beat === beat }?.waitingForPermits(now: now) ?? 0
    }

    func isActive(_ beat: LeaseBeat) -> Bool {
        if let pace = self.paces.values.first(where: { $0.beat === beat }) { return pace.runs > 0 }
        return self.routes.values.first { $0.beat === beat }.map { $0.runs > 0 } ?? false
    }

    func leased(_ beat: LeaseBeat) {
        if let pace = self.paces.values.first(where: { $0.beat === beat }) {
            for active in pace.takeParked() {
                self.enqueue(active)
                if let route = active.route { self.feed(route, active.plan.lane) }
            }
        } else if let route = self.routes.values.first(where: { $0.beat === beat }) {
            // What it was held for stopped the route as well: whoever lets that go on wants to see whether the provider does.
            if !beat.permits.isPaused { route.mended() }
            for lane in Lane.allCases { self.feed(route, lane) }
        }
    }
}
