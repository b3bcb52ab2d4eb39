package import ApusCore
package import ApusMessages

/// Describes the progress of a send, from its ledger or its receipt.
package struct SendStatus: Hashable, Sendable {
    /// The state of a send.
    package enum Phase: Hashable, Sendable {
        /// No dispatcher has accepted the send yet, or its outcome has not been counted, or there is none of that id.
        case waiting
        /// Its time has not come yet.
        case scheduled
        /// Its recipients are still being found.
        case planning
        /// It is being sent.
        case running
        /// An operator holds it.
        case paused
        /// It was stopped for good, and is being closed or has ended.
        case cancelled
        /// Every recipient has its outcome.
        case done
        /// It was refused.
        case refused(Problem)

        /// The name in JSON.
        package var name: String {
            switch self {
            case .waiting: "waiting"
            case .scheduled: "scheduled"
            case .planning: "planning"
            case .running: "running"
            case .paused: "paused"
            case .cancelled: "cancelled"
            case .done: "done"
            case .refused: "refused"
            }
        }
    }

    /// The id of the send.
    package var send: String
    /// The state of the send.
    package var phase: Phase
    /// True when a cancelled send has ended: every recipient has its outcome.
    package var isClosed = false
    /// The routes on which its recipients are looked for; nil when no ledger tells.
    package var routes: [RouteNumber]?
    /// The time at which a scheduled send begins; nil for any other.
    package var notBefore: UnixMilliseconds?
    /// The time at which it was accepted; nil when no ledger tells.
    package var acceptedAt: UnixMilliseconds?
    /// The maximum of recipients per second; 0 for as many as its routes allow.
    package var ratePerSecond: UInt32 = 0
    /// The number of recipients found so far.
    package var planned: UInt64 = 0
    /// The number of recipients of each outcome.
    package var counts: [OutcomeCount] = []
    /// The time at which the first recipient ended.
    package var firstAt: UnixMilliseconds?
    /// The time at which the last recipient ended.
    package var lastAt: UnixMilliseconds?
    /// The reason why it was refused, or what is wrong with it as a whole; nil when nothing is.
    package var problem: Problem?
    /// The receipt of a dry run, with what it has rendered; nil for any other send.
    package var dryRun: SendReceipt?

    /// Creates the status of a send of which nothing is known.
    package init(send: String) {
        self.send = send
        self.phase = .waiting
    }

    /// Creates the status from a ledger.
    ///
    /// - Parameter now: the current time, before which a scheduled send has not begun.
    package init(send: String, ledger: SendLedger, now: UnixMilliseconds) {
        self.send = send
        switch ledger.state {
        case .running: self.phase = ledger.isPlanning ? .planning : .running
        case .paused: self.phase = .paused
        case .cancelled: self.phase = .cancelled
        case .done: self.phase = ledger.isCancelled ? .cancelled : .done
        }
        self.isClosed = ledger.state == .done
        if self.phase == .planning, ledger.planned == 0, let start = ledger.notBefore, now < start {
            (self.phase, self.notBefore) = (.scheduled, start)
        }
        // The ledger of a direct send names none: any route of its app may have its recipients.
        self.routes = ledger.routes.isEmpty ? nil : ledger.routes
        self.acceptedAt = ledger.acceptedAt
        self.ratePerSecond = ledger.ratePerSecond
        self.planned = ledger.planned
        self.counts = ledger.counts
        self.firstAt = ledger.firstAt
        self.lastAt = ledger.lastAt
        self.problem = ledger.problem
    }

    /// Creates the status from a receipt that ends the send; nil for other receipts, and for those of commands that came under its id
    /// later and were not taken.
    package init?(receipt: SendReceipt) {
        self.send = receipt.send
        switch receipt.kind {
        case .final, .dryRun: self.phase = .done
        case .refused where receipt.tellsOfRepetition || receipt.tellsOfAnotherCommand: return nil
        case .refused: self.phase = .refused(receipt.problem ?? Problem(code: "unknown", detail: "refused"))
        case .progress, .recipients: return nil
        }
        self.planned = receipt.planned
        self.counts = receipt.counts
        self.firstAt = receipt.firstAt
        self.lastAt = receipt.lastAt
        self.problem = receipt.problem
        if receipt.kind == .dryRun { self.dryRun = receipt }
        if case .refused(let problem) = self.phase { self.problem = problem }
    }

    /// Returns the number of recipients of that outcome.
    package func total(_ outcome: Outcome) -> UInt64 {
        // A dry run counts those who would be sent to as open.
        guard outcome == .open, self.dryRun == nil else {
            return self.counts.reduce(0) { $0 + ($1.outcome == outcome ? $1.count : 0) }
        }
        return self.planned > self.closed ? self.planned - self.closed : 0
    }

    /// The number of recipients that have their outcome.
    package var closed: UInt64 { self.counts.reduce(0) { $0 + $1.count } }

    /// The number of recipients that did not get it although they should have.
    package var unsuccessful: UInt64 { self.total(.rejected) + self.total(.failed) + self.total(.expired) }

    /// True when the status will not change any more.
    package var isOver: Bool {
        switch self.phase {
        case .done, .refused: true
        case .cancelled: self.isClosed
        case .waiting, .scheduled, .planning, .running, .paused: false
        }
    }

    /// Returns the status as JSON: every outcome by name, and the counts in detail.
    package var json: JSONObject {
        var object: JSONObject = [
            "send": .string(self.send), "state": .string(self.phase.name), "planned": .integer(self.planned),
        ]
        for outcome in Outcome.allCases { object[outcome.name] = .integer(self.total(outcome)) }
        object["counts"] = .array(
            self.counts.map { count in
                [
                    "provider": .string(count.provider.name), "outcome": .string(count.outcome.name),
                    "reason": .string(count.reason.name), "count": .integer(count.count),
                ]
            }
        )
        object["rate_per_second"] = .integer(self.ratePerSecond)
        if let acceptedAt { object["accepted_at_ms"] = .integer(acceptedAt.value) }
        if let notBefore { object["not_before_ms"] = .integer(notBefore.value) }
        if let firstAt { object["first_at_ms"] = .integer(firstAt.value) }
        if let lastAt { object["last_at_ms"] = .integer(lastAt.value) }
        if let problem {
            object["problem"] = [
                "code": .string(problem.code), "field": .string(problem.field), "detail": .string(problem.detail),
            ]
        }
        if let dryRun { object["dry_run"] = .object(dryRun.findings) }
        return object
    }
}

extension SendReceipt {
    /// The findings of a dry run as JSON: what each provider would be given in each language, and advice.
    package var findings: JSONObject {
        let renderings = self.renderings.map { rendering -> JSONValue in
            var object: JSONObject = [
                "provider": .string(rendering.provider.name), "environment": .string(rendering.environment.name),
                "locale": .string(rendering.locale), "payload_bytes": .integer(UInt64(rendering.payloadBytes)),
                "payload_bytes_max": .integer(UInt64(rendering.payloadBytesMax)),
            ]
            guard !rendering.payload.isEmpty else { return .object(object) }
            var headers = JSONObject()
            for header in rendering.headers {
                guard let colon = header.firstIndex(of: ":") else { continue }
                headers[String(header[..<colon])] = .string(String(header[colon...].dropFirst(2)))
            }
            object["headers"] = .object(headers)
            object["payload"] = .string(rendering.payload)
            return .object(object)
        }
        let lints = self.lints.map { lint -> JSONValue in
            ["code": .string(lint.code), "field": .string(lint.field), "detail": .string(lint.detail)]
        }
        return ["renderings": .array(renderings), "lints": .array(lints)]
    }
}
