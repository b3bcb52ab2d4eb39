internal import ApusCore
internal import ApusProviders
internal import ApusStreams
internal import NIOCore

/// Keeps sends to rates of their own, and sends when permits arrive.
extension Worker {
    /// Sets the maximum number of recipients of the run's send that the whole fleet may reach per second; 0 for no
    /// limit.
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
            pace.rateLimit.ratePerSecond = perSecond
            return
        }
        // Two apps' sends may have the same id if they are in different shards, so the key is the limiter.
        let limiter = active.plan.send.limiter
        let pace = self.paces[limiter] ?? SendPace(rateLimit: self.rateLimit(of: limiter, ratePerSecond: perSecond))
        self.paces[limiter] = pace
        pace.rateLimit.ratePerSecond = perSecond
        pace.join(active)
    }

    func leavePace(_ active: ActiveRun) {
        guard let pace = active.pace else { return }
        pace.leave(active)
        guard pace.runs == 0 else { return }
        pace.rateLimit.stop()
        self.paces[active.plan.send.limiter] = nil
    }
}

extension SendContext {
    /// The rate limit that keeps the whole fleet to the send's rate.
    fileprivate var limiter: RateLimit { RateLimit(ofSend: self.key, tag: self.tag) }
}

extension Worker {
    /// Sends to the recipients that wait for the third party, or lets them wait on, depending on the answer that one
    /// got for all.
    func goOn(_ active: ActiveRun, _ route: RouteSender, _ outcome: DeliveryOutcome) {
        if RecipientRun.showsThirdPartyAuth(outcome) { route.rateLimit.budget.record(thirdPartyFault: nil) }
        self.enqueue(active)
        guard active.isQueued else { return }
        self.eventLoop.assumeIsolated().execute { self.feed(route, active.plan.lane) }
    }
}

extension Worker: RateLimitClientDelegate {
    /// The wait of broadcasts after their own host has refused the credential.
    static let broadcastsWait: TimeAmount = .minutes(5)

    func gateway(_ gateway: ProviderGateway, heldFor word: String) {
        // A gateway that drains, or that is not yet in use, says nothing about the credential in use.
        guard let route = self.routes.values.first(where: { $0.isSentWith(gateway) }) else { return }
        guard !route.slots.contains(where: { $0.giveWay(gateway) }) else { return }
        guard !route.holdsBroadcasts(gateway) else {
            self.eventLoop.assumeIsolated().scheduleTask(in: Self.broadcastsWait) { gateway.restored() }
            return
        }
        route.rateLimit.budget.record(RouteFault(.credential, word))
        route.rateLimit.need(hurry: false)
    }

    func waiting(for rateLimit: RateLimitClient) -> Int {
        let now = NIODeadline.now().uptimeNanoseconds
        if let pace = self.paces.values.first(where: { $0.rateLimit === rateLimit }) {
            return min(self.settings.window, pace.recipients)
        }
        return self.routes.values.first { $0.rateLimit === rateLimit }?.waitingForPermits(now: now) ?? 0
    }

    func isActive(_ rateLimit: RateLimitClient) -> Bool {
        if let pace = self.paces.values.first(where: { $0.rateLimit === rateLimit }) { return pace.runs > 0 }
        return self.routes.values.first { $0.rateLimit === rateLimit }.map { $0.runs > 0 } ?? false
    }

    func leased(_ rateLimit: RateLimitClient) {
        if let pace = self.paces.values.first(where: { $0.rateLimit === rateLimit }) {
            for active in pace.takeParked() {
                self.enqueue(active)
                if let route = active.route { self.feed(route, active.plan.lane) }
            }
        } else if let route = self.routes.values.first(where: { $0.rateLimit === rateLimit }) {
            // The refusal that held the gateways also stopped the route. Now that the route has resumed, its next
            // requests show whether the provider accepts the credential.
            if !rateLimit.budget.isPaused { route.restored() }
            for lane in Lane.allCases { self.feed(route, lane) }
        }
    }
}
