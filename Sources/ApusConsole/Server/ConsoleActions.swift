internal import ApusCommand
internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusService
internal import ApusStore
internal import ApusStreams
internal import ApusTerminal

/// Does what the forms of the pages ask for. Every act is entered in the audit trail first.
struct ConsoleActions: Sendable {
    /// The maximum of dead letters that one request replays or removes.
    static let lettersMax = 10_000

    let installation: Installation
    /// The services' configuration.
    let configuration: SettingsSource
    let clock: any WallClock

    private var streams: SendStreams { self.installation.streams }

    /// Controls a send; returns what was done.
    func control(_ app: AppID, _ send: SendID, _ fields: FormFields, by someone: Operator) async throws -> String {
        let command: SendControlCommand
        switch fields["action"] {
        case "pause": command = .pause
        case "resume": command = .resume
        case "cancel": command = .cancel
        case "rate":
            guard let rate = UInt32(fields["rate"]) else {
                throw CommandFailure("The rate must be a whole number from 0.")
            }
            command = .rate(rate)
        default: throw CommandFailure("There is no such action.")
        }
        let report = try await SendControlReport(self.streams, app: app.text, send: send.text)
            .perform(command, by: someone)
        switch command {
        case .rate(0): return "It goes out as fast as its routes allow."
        case .rate(let rate): return "It goes out to at most \(NumberText.grouped(rate)) recipients per second."
        default: return "It is \(report.status.phase.name) now."
        }
    }

    /// Pauses or resumes a route of an app; returns what was done.
    func controlRoute(_ app: AppID, _ fields: FormFields, by someone: Operator) async throws -> String {
        let route = try Self.route(fields, of: app)
        switch fields["action"] {
        case "pause": _ = try await RouteControlReport(self.streams).perform(.pause, on: route, by: someone)
        case "resume": _ = try await RouteControlReport(self.streams).perform(.resume, on: route, by: someone)
        default: throw CommandFailure("There is no such action.")
        }
        return fields["action"] == "pause" ? "\(route) is paused." : "\(route) is resumed."
    }

    /// Settles the quarantine of a route; returns what was done.
    func settle(_ app: AppID, _ fields: FormFields, by someone: Operator) async throws -> String {
        let route = try Self.route(fields, of: app)
        let decision: Quarantines.Decision
        switch fields["action"] {
        case "restore": decision = .restore
        case "confirm":
            decision = .confirm(
                undo: try ConfigurationAccess.undo(in: self.configuration),
                history: try ConfigurationAccess.history(in: self.configuration),
            )
        default: throw CommandFailure("There is no such action.")
        }
        let settled = try await Quarantines(self.installation).settle(route, decision, resuming: true, by: someone)
        return settled.map { $0.line(decision) }.joined(separator: "; ")
    }

    private static func route(_ fields: FormFields, of app: AppID) throws -> String {
        guard let route = Route(fields["route"]), route.app == app else {
            throw CommandFailure("There is no such route of \(app).")
        }
        return "\(route)"
    }

    /// Replays or removes dead letters of an app; returns what was done.
    func handleLetters(_ app: AppID, _ fields: FormFields, by someone: Operator) async throws -> String {
        let dead = DeadLetters(self.streams)
        let action = fields["action"]
        if action == "replay-all" {
            let cause = DeadLetter.Cause.allCases.first { $0.name == fields["cause"] }
            let filter = ConsoleReader.filter(app, cause)
            var results: [DeadLetters.Replayed] = []
            try await dead.forEachPart(filter, atMost: Self.lettersMax) { part in
                results += try await dead.replay(part, by: someone)
            }
            return Self.replayed(results)
        }
        var chosen: [StoredDeadLetter] = []
        for text in fields.all("letter") {
            guard let id = DeadLetterID(text) else { continue }
            let letter = try await dead.letter(id)
            // The app in the letter is what its key opens.
            guard letter.letter.app == app.text else { continue }
            chosen.append(letter)
        }
        guard !chosen.isEmpty else { throw CommandFailure("Select letters first.") }
        switch action {
        case "replay": return Self.replayed(try await dead.replay(chosen, by: someone))
        case "purge": return "\(Self.letters(try await dead.purge(chosen, by: someone))) removed."
        default: throw CommandFailure("There is no such action.")
        }
    }

    private static func replayed(_ results: [DeadLetters.Replayed]) -> String {
        let failures = results.filter { !$0.isReplayed }
        let reason = failures.first.map { " \(failures.count) were not: \($0.id) \($0.text)." } ?? ""
        return "\(Self.letters(results.count - failures.count)) replayed.\(reason)"
    }

    private static func letters(_ count: Int) -> String {
        count == 1 ? "1 letter was" : "\(NumberText.grouped(count)) letters were"
    }

    /// Forgets a device or a user of an app; returns what was done.
    func forget(_ app: AppID, _ fields: FormFields, by someone: Operator) async throws -> String {
        switch fields["action"] {
        case "forget": try await self.forgetDevice(app, try DeviceID(fields["device"]), by: someone)
        case "forget-user": try await self.forgetUser(app, try UserID(fields["user"]), by: someone)
        default: throw CommandFailure("There is no such action.")
        }
    }

    /// Forgets a user, without waiting for replicas: dead letters that name the user go first, while the devices are known.
    private func forgetUser(_ app: AppID, _ user: UserID, by someone: Operator) async throws -> String {
        try await self.streams.audit.record(AuditEntry("user.forget", of: user.text, app: app.text, by: someone))
        let store = self.installation.store
        try await ForgottenUser(user, of: app, in: store).forgetLetters(in: self.streams.deadLetters)
        let removed = try await store.deleteUser(app, user)
        return "\(user) is forgotten, with \(removed.count == 1 ? "1 device" : "\(removed.count) devices")."
    }

    private func forgetDevice(_ app: AppID, _ device: DeviceID, by someone: Operator) async throws -> String {
        try await self.streams.audit.record(AuditEntry("device.forget", of: device.text, app: app.text, by: someone))
        switch try await self.installation.store.delete(app, device) {
        case .deleted: return "\(device) is forgotten."
        case .ignored, .missing: return "\(device) was not registered any more."
        }
    }

    /// Publishes a send; returns its id, or nil when another send was published by its id.
    func publish(_ command: SendCommand, isExpress: Bool, by someone: Operator) async throws -> String? {
        var command = command
        command.publishedAtNanoseconds = self.clock.nanosecondsSince1970()
        try await self.streams.audit.record(publicationOf: command, by: someone)
        switch try await self.streams.mailboxes.publish(command, lane: isExpress ? .express : .bulk) {
        case .new(let send, _), .duplicate(let send): return send
        case .conflict: return nil
        case .full: throw CommandFailure("The mailbox is full: too much waits to be sent. Try again in a moment.")
        }
    }
}
