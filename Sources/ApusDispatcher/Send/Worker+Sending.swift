internal import ApusCore
internal import ApusMetrics
internal import ApusProviders
internal import NIOCore

/// Lets the runs of a route take turns in sending.
extension Worker {
    /// The time after which a run that has more to send lets the next one have its turn. A run whose route is quick is sent whole within
    /// it: of runs that advance side by side, each writes many small reports.
    private static let turnMax: TimeAmount = .milliseconds(20)

    /// The result of a run's batch.
    private enum Turn {
        /// The run has had its batch, or has nothing more to send.
        case taken
        /// The run waits for something of its own: its report, its send's rate.
        case parked
        /// Nothing of this lane can go out now.
        case blocked
    }

    func feed(_ route: RouteSender, _ lane: Lane) {
        var isHeld = false
        for slot in route.slots where !self.feed(route, slot, lane) { isHeld = true }
        if isHeld { route.noteHold(lane, now: .now()) } else { route.endHold(now: .now()) }
    }

    /// Sends what waits on a slot; returns true when nothing was held back.
    private func feed(_ route: RouteSender, _ slot: GatewaySlot, _ lane: Lane) -> Bool {
        while let active = slot.waiting.takeFirst(lane) {
            active.isQueued = false
            guard active.run.hasNext else { continue }
            let now = NIODeadline.now()
            let beganAt = active.turnBeganAt ?? now
            active.turnBeganAt = beganAt
            let turn = self.submitBatch(of: active, route, slot, now: now)
            switch turn {
            case .taken where now - beganAt >= Self.turnMax || !active.run.hasNext: self.enqueue(active)
            case .parked: continue
            case .taken, .blocked:
                active.isQueued = true
                slot.waiting.putFirst(active)
                if turn == .blocked { return false }
            }
        }
        return true
    }

    private func submitBatch(
        of active: ActiveRun,
        _ route: RouteSender,
        _ slot: GatewaySlot,
        now: NIODeadline,
    ) -> Turn {
        let plan = active.plan
        guard !active.isHeldBack(now: now, by: self.settings) else {
            if let reports = active.reports, reports.isSilent(now: now, for: self.settings.unwrittenTimeMax) {
                reports.park(active)
            }
            return .parked
        }
        var room = min(Self.batchMax, route.room(plan.lane, now: now.uptimeNanoseconds))
        guard room > 0 else { return .blocked }
        // Not before there is a grant, which tells whether the fleet still knows the subroute as refused.
        self.holdSubroute(of: active, route)
        guard active.run.hasNext else { return .taken }
        if let sendRateLimit = active.sendRateLimit {
            room = min(room, sendRateLimit.client.bucket.available(plan.lane, now: now.uptimeNanoseconds))
            guard room > 0 else {
                sendRateLimit.park(active)
                return .parked
            }
        }
        if let trial = active.trial?.trial {
            room = min(room, trial.room)
            guard room > 0 else {
                active.trial?.park(active)
                return .parked
            }
        }
        guard !active.run.isBeingRechecked else { return .parked }
        guard !active.run.isStale(now: now.uptimeNanoseconds) else { return self.beginRecheck(of: active, route) }
        let runSlot = UInt64(active.slot) << 32
        let sent = self.submit(
            room,
            of: &active.run,
            plan,
            active.rendered,
            runSlot,
            slot.gateway,
            now: now.uptimeNanoseconds,
        )
        route.sent(sent)
        active.trial?.trial.sent(sent)
        if sent > 0, !active.hasSent { self.noteFirstRequest(of: active, now: now) }
        active.sendRateLimit?.client.bucket.use(sent)
        // The reason may be the age of the next recipient, which is read again in the next turn.
        let isOver = sent == room || !active.run.hasNext || active.run.isStale(now: now.uptimeNanoseconds)
        return isOver ? .taken : .blocked
    }

    // MARK: Rechecks

    /// The maximum of recipients that are read again at once, of those that come next: the largest unit.
    private static let recheckMax = 500
    /// The least that are, however slow the send.
    private static let recheckMin = 16

    /// Asks whoever follows the run to read its next recipients again, if any is left to send to. A direct send has no time for that: it
    /// becomes units.
    private func beginRecheck(of active: ActiveRun, _ route: RouteSender) -> Turn {
        guard !active.plan.reportsAtEnd else {
            self.setAside(active)
            return .parked
        }
        let rate = min(
            active.sendRateLimit?.client.ratePerSecond ?? .infinity,
            route.rateLimit.ratePerSecond ?? .infinity
        )
        // As many as may go out until they would have to be read once more.
        let wanted = rate * Double(self.settings.validity(of: active.plan.send).nanoseconds) / 1e9
        let count = Int(max(Double(Self.recheckMin), min(wanted, Double(Self.recheckMax))))
        let indices = active.run.beginRecheck(countMax: count)
        // An empty update would pass for a report, so that nobody would end the read.
        guard !indices.isEmpty else { return .taken }
        active.recheck = indices
        self.handOverRecheck(of: active)
        return .parked
    }

    /// Takes over what was found, and lets the run go on.
    ///
    /// - Parameters:
    ///   - rows: of the update's `recheck`, in that order; nil for addresses, which are not read.
    ///   - readAt: when the reading began.
    func recheck(
        _ token: RunToken,
        _ rows: RecipientTable?,
        of indices: [Int],
        readAt: NIODeadline,
        rendered: RouteContext?,
    ) {
        guard let active = self.active(token) else { return }
        // Rows name the variants of a message by their places.
        if let rendered, rendered.messages.variants.count == active.rendered.messages.variants.count {
            active.rendered = rendered
        }
        active.run.finishRecheck(rows, of: indices, readAt: readAt.uptimeNanoseconds, now: self.clock.now())
        if rows != nil { self.shard[self.metrics.rechecked] += Int64(indices.count) }
        self.enqueue(active)
        if let route = active.route { self.feed(route, active.plan.lane) }
    }

    /// Submits up to so many, as far as the gateway has room.
    private func submit(
        _ room: Int,
        of run: inout RecipientRun,
        _ plan: RunPlan,
        _ rendered: RouteContext,
        _ runSlot: UInt64,
        _ gateway: ProviderGateway,
        now: UInt64,
    ) -> Int {
        let own = rendered.messages.variants
        let keyBytes = run.table.keyBytes
        var installations: [PreparedMessage] = []
        for sent in 0..<room {
            guard gateway.hasRoom(plan.lane), let index = run.takeNext(now: now) else { return sent }
            let row = run.table.rows[index]
            let start = Int(row.tokenOffset)
            let id = DeliveryID(sendDigest: plan.send.digest, row)
            // Looked up once for the batch: that takes a lock.
            if row.isInstallation, installations.isEmpty { installations = rendered.forInstallations.variants }
            let message = row.isInstallation ? installations[Int(row.variant)] : own[Int(row.variant)]
            let isProbe = run.probes.isProbe(index)
            // A probe reaches no device, so it needs no recent record.
            let validUntil = isProbe ? .max : run.validUntil
            let accepted = gateway.submit(
                isProbe ? rendered.probe(isInstallation: row.isInstallation) : message,
                token: run.table.tokens.span.extracting(start..<start + Int(row.tokenLength) + keyBytes),
                badge: run.table.badge(index),
                id: (id.high, id.low),
                tag: runSlot | UInt64(index),
                lane: plan.lane,
                now: now,
                validUntil: validUntil,
            )
            guard accepted else {
                run.putBack(index)
                return sent
            }
        }
        return room
    }
}
