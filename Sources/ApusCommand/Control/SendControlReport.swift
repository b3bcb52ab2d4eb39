package import ApusCore
package import ApusStreams
internal import ApusTerminal

/// Pauses, resumes, cancels or slows down a send by its id.
package struct SendControlReport: Sendable {
    private let streams: SendStreams
    private let app: String?
    private let send: String

    /// The state of a send after a command.
    package struct Report: Hashable, Sendable {
        /// The status of the send, with its rate.
        package var status: SendStatus

        /// The status as JSON.
        package var json: JSONObject { self.status.json }

        /// The status as a line.
        package var line: String {
            let open = NumberText.grouped(self.status.total(.open))
            let planned = NumberText.grouped(self.status.planned)
            let perSecond = self.status.ratePerSecond
            let rate = perSecond == 0 ? "" : "  at most \(NumberText.grouped(perSecond))/s"
            return "\(self.status.send)  \(self.status.phase.name)  \(open) of \(planned) open\(rate)"
        }
    }

    /// Creates the control of one send.
    ///
    /// - Parameter app: the send's app; nil for any, if only one app has the send.
    package init(_ streams: SendStreams, app: String?, send: String) {
        self.streams = streams
        self.app = app
        self.send = send
    }

    /// Performs a command, after it was entered in the audit trail.
    ///
    /// - Throws: `CommandFailure` when there is no such send, or it is too late.
    package func perform(_ command: SendControlCommand, by someone: Operator) async throws -> Report {
        guard let found = try await self.find() else { throw try await self.absence() }
        let key = SendKey(app: found.ledger.app, id: self.send)
        func record(_ detail: String) async throws {
            try await self.streams.audit.record(
                AuditEntry("send.\(command.name)", of: self.send, app: key.app, detail: detail, by: someone)
            )
        }
        if command.isTooLate(for: found.ledger) {
            try await record(command.detailOfRefusal(found.ledger))
            throw self.lateness(of: command, found.ledger)
        }
        try await record(command.detail)
        switch try await self.streams.control.apply(command, to: key, at: found.places) {
        case .ok(let ledger):
            return Report(status: SendStatus(send: self.send, ledger: ledger, now: SystemClock().now()))
        case .unknown: throw try await self.absence()
        case .over:
            // It ended, or another cancelled it, after it was found.
            let ledger = try await self.find()?.ledger ?? found.ledger
            try await record(command.detailOfRefusal(ledger))
            throw self.lateness(of: command, ledger)
        }
    }

    /// Returns the reason why a command for a send is too late.
    private func lateness(of command: SendControlCommand, _ ledger: SendLedger) -> CommandFailure {
        guard ledger.isCancelled || ledger.state == .cancelled else {
            return CommandFailure("\(self.send) has ended: every recipient has its outcome")
        }
        return command == .cancel
            ? CommandFailure("\(self.send) was cancelled before, and has ended")
            : CommandFailure("\(self.send) was cancelled for good: to reach the rest, publish a new send")
    }

    private func find() async throws -> SendControl.Found? {
        if let app { return try await self.streams.control.find(app: app, send: self.send) }
        let found = try await self.streams.control.find(send: self.send)
        guard found.count <= 1 else {
            throw SendObserver.ambiguity(of: self.send, apps: found.map(\.ledger.app))
        }
        return found.first
    }

    /// Returns the reason why there is nothing to control.
    private func absence() async throws -> CommandFailure {
        var observer = SendObserver(self.streams, app: self.app, send: self.send)
        switch try await observer.look().phase {
        case .refused(let problem): return CommandFailure("\(self.send) was refused: \(problem)")
        case .done: return CommandFailure("\(self.send) has ended: every recipient has its outcome")
        case .waiting, .scheduled, .planning, .running, .paused, .cancelled:
            return CommandFailure(
                "no dispatcher keeps a send \(self.send): check the id and --app. A send that waits in its mailbox can be "
                    + "controlled once a dispatcher has read it; one to a few devices is sent at once and cannot be controlled"
            )
        }
    }
}
