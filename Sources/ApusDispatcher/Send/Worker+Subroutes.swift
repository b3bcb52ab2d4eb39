internal import ApusCore
internal import ApusMessages
internal import NIOCore

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

extension RecipientRun {
    /// Defers all recipients that are not in flight because their subroute is refused. That is no attempt.
    ///
    /// - Parameters:
    ///   - milliseconds: the time after which they are looked at again.
    ///   - draw: a random number in 0..<1. It adds up to a tenth, so that some units ask before the others come.
    mutating func waitForSubroute(milliseconds: Int64, now: UnixMilliseconds, draw: Double) {
        self.abandonProbes(now: now)
        let waiting = self.again.map { Int($0) } + (self.next..<self.table.rows.count).filter { self.isUnsent($0) }
        self.again.removeAll()
        self.next = self.table.rows.count
        let due = now.advanced(byMilliseconds: milliseconds + Int64(Double(milliseconds) * 0.1 * draw))
        for index in waiting {
            if let expiresAt = self.terms.expiresAt, due >= expiresAt {
                self.close(index, .expired, .ttl, now: now)
            } else {
                self.wait(
                    Deferred(index: index, due: due, reason: .credentials, cause: .subroute, isAnswered: false),
                    now: now
                )
            }
        }
    }
}
