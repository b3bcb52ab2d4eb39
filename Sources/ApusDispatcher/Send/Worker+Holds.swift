internal import ApusCore
internal import ApusMessages
internal import ApusProviders
internal import ApusStreams
internal import NIOCore
internal import Synchronization

/// Keeps sends to rates of their own.
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
        guard perSecond > 0 else { return self.leaveSendRateLimit(active) }
        if let sendRateLimit = active.sendRateLimit {
            sendRateLimit.client.ratePerSecond = perSecond
            return
        }
        // Two apps' sends may have the same id if they are in different shards, so the key is the limiter.
        let limiter = active.plan.send.limiter
        let sendRateLimit =
            self.sendRateLimits[limiter] ?? SendRateLimit(client: self.rateLimit(of: limiter, ratePerSecond: perSecond))
        self.sendRateLimits[limiter] = sendRateLimit
        sendRateLimit.client.ratePerSecond = perSecond
        sendRateLimit.join(active)
    }

    func leaveSendRateLimit(_ active: ActiveRun) {
        guard let sendRateLimit = active.sendRateLimit else { return }
        sendRateLimit.leave(active)
        guard sendRateLimit.runs == 0 else { return }
        sendRateLimit.client.stop()
        self.sendRateLimits[active.plan.send.limiter] = nil
    }
}

extension SendContext {
    /// The rate limit that keeps the whole fleet to the send's rate.
    fileprivate var limiter: RateLimit { RateLimit(ofSend: self.key, tag: self.tag) }
}

/// Ends the wait for a third party.
extension Worker {
    /// Sends to the recipients that wait for the third party, or lets them wait on, depending on the answer that one
    /// got for all.
    func goOn(_ active: ActiveRun, _ route: RouteSender, _ outcome: DeliveryOutcome) {
        if RecipientRun.showsThirdPartyAuth(outcome) { route.rateLimit.bucket.record(thirdPartyFault: nil) }
        self.enqueue(active)
        guard active.isQueued else { return }
        self.eventLoop.assumeIsolated().execute { self.feed(route, active.plan.lane) }
    }
}

/// Holds the route of a refused credential, and sends when grants arrive.
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
        route.rateLimit.bucket.record(RouteFault(.credential, word))
        route.rateLimit.need(hurry: false)
    }

    func waiting(for rateLimit: RateLimitClient) -> Int {
        let now = NIODeadline.now().uptimeNanoseconds
        if let sendRateLimit = self.sendRateLimits.values.first(where: { $0.client === rateLimit }) {
            return min(self.settings.window, sendRateLimit.recipients)
        }
        return self.routes.values.first { $0.rateLimit === rateLimit }?.waitingForPermits(now: now) ?? 0
    }

    func isActive(_ rateLimit: RateLimitClient) -> Bool {
        if let sendRateLimit = self.sendRateLimits.values.first(where: { $0.client === rateLimit }) {
            return sendRateLimit.runs > 0
        }
        return self.routes.values.first { $0.rateLimit === rateLimit }.map { $0.runs > 0 } ?? false
    }

    func rateLimitAnswered(_ rateLimit: RateLimitClient) {
        if let sendRateLimit = self.sendRateLimits.values.first(where: { $0.client === rateLimit }) {
            for active in sendRateLimit.takeParked() {
                self.enqueue(active)
                if let route = active.route { self.feed(route, active.plan.lane) }
            }
        } else if let route = self.routes.values.first(where: { $0.rateLimit === rateLimit }) {
            // The refusal that held the gateways also stopped the route. Now that the route has resumed, its next
            // requests show whether the provider accepts the credential.
            if !rateLimit.bucket.isPaused { route.restored() }
            route.noteGrant(now: .now())
            for lane in Lane.allCases { self.feed(route, lane) }
        }
    }
}

/// Lets the recipients of a refused subroute wait in units of their own, so that they hold up nothing else of the route.
extension Worker {
    /// The maximum time for which recipients wait before they are looked at again, so that they follow soon after the subroute is accepted or
    /// an operator has resumed the route.
    static let subrouteWaitMillisecondsMax: Int64 = 120_000

    /// Lets the recipients of a run wait that have not been sent to, or lets them be sent to one at a time, if its subroute is refused.
    func holdSubroute(of active: ActiveRun, _ route: RouteSender) {
        guard !route.rateLimit.subroutes.isQuiet || active.run.isAskingSubroute else { return }
        let now = NIODeadline.now().uptimeNanoseconds
        switch route.rateLimit.subroutes.standing(of: active.plan.context.subroute, now: now) {
        case .open: active.run.isAskingSubroute = false
        case .asks: active.run.isAskingSubroute = true
        case .waits(let until):
            let wait = min(Int64(clamping: (until - now) / 1_000_000), Self.subrouteWaitMillisecondsMax)
            active.run.waitForSubroute(milliseconds: wait, now: self.clock.now(), draw: active.draw)
        }
    }

    /// Records what an answer shows of a subroute that is refused: a provider that has looked at the token accepts the subroute.
    func noteSubroute(of active: ActiveRun, _ route: RouteSender, _ outcome: DeliveryOutcome) {
        switch outcome {
        case .accepted, .unregistered: break
        case .suspect, .rejected, .deferred, .misconfigured, .lost: return
        }
        route.rateLimit.subroutes.recordAcceptance(of: active.plan.context.subroute)
        active.run.isAskingSubroute = false
        if route.rateLimit.hasNews { route.rateLimit.need(hurry: false) }
    }
}

/// Sends a message to few recipients until its provider has accepted it for one of them.
extension Worker {
    /// Lets a run take part in the trial of its message, if its provider names the fields that it rejects, until it was accepted.
    func joinTrial(_ active: ActiveRun) {
        let context = active.plan.context
        guard context.namesRejectedFields, !context.wasAccepted.load(ordering: .relaxed) else { return }
        let key = SharedTrial.Key(send: active.plan.send.digest, route: context.number.value)
        let shared = self.trials[key] ?? SharedTrial(key, variants: active.run.terms.variants)
        self.trials[key] = shared
        shared.runs += 1
        active.trial = shared
    }

    func leaveTrial(_ active: ActiveRun) {
        guard let shared = active.trial else { return }
        shared.remove(active)
        // Its report may not have reached the ledger.
        if active.hasReportedRejection { shared.trial.reset() }
        active.trial = nil
        shared.runs -= 1
        if shared.runs == 0 { self.trials[shared.key] = nil } else { self.resumeTrial(shared) }
    }

    /// Records what an answer says of a run's message.
    ///
    /// - Parameter outcome: nil for a probe, which carries another message.
    func noteTrial(of active: ActiveRun, _ outcome: DeliveryOutcome?, rejectedField: String = "", variant: Int = 0) {
        guard let shared = active.trial else { return }
        shared.trial.answered()
        switch outcome {
        case .accepted:
            shared.trial.recordAccepted()
            active.plan.context.wasAccepted.store(true, ordering: .relaxed)
        case .rejected:
            if shared.trial.record(rejectedField, variant: variant) { active.run.messageRejected(rejectedField) }
        case .unregistered, .suspect, .deferred, .misconfigured, .lost, nil: break
        }
        self.resumeTrial(shared)
    }

    /// Goes by the ledger's answer to a run that has reported that its message is rejected for every recipient: if the send goes on, the
    /// message was accepted elsewhere.
    func finishTrial(of active: ActiveRun) {
        guard let shared = active.trial, active.hasReportedRejection else { return }
        active.hasReportedRejection = false
        guard active.run.isSending else { return shared.trial.reset() }
        shared.trial.recordAccepted()
        self.resumeTrial(shared)
    }

    private func resumeTrial(_ shared: SharedTrial) {
        let parked = shared.takeParked()
        guard !parked.isEmpty else { return }
        for active in parked { self.enqueue(active) }
        self.eventLoop.assumeIsolated().execute {
            for active in parked {
                if let route = active.route { self.feed(route, active.plan.lane) }
            }
        }
    }
}
