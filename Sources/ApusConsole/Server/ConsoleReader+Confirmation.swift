internal import ApusCommand
internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusStore
internal import ApusStreams
internal import ApusTerminal

extension ConsoleReader {
    /// Returns what a person is asked before a form is obeyed; nil for acts that can be taken back, and for routes of other apps.
    ///
    /// The counts are those of now: what joins until the answer, such as another dead letter, is part of the act.
    func confirmation(of app: AppID, at path: ConsolePath, _ fields: FormFields) async throws -> Confirmation? {
        switch (path, fields["action"]) {
        case (.send(_, let send), "cancel"): try await self.cancelling(app, send)
        case (.app(_, .routes), "pause"): try await self.pausing(app, fields["route"])
        case (.app(_, .quarantine), "confirm"): try await self.confirming(app, fields["route"])
        case (.app(_, .deadLetters), "replay"):
            // One letter is looked at before it is replayed; many are not.
            fields.all("letter").count > 1 ? Self.replaying(fields.all("letter").count) : nil
        case (.app(_, .deadLetters), "replay-all"):
            Self.replaying(try await self.letters(of: app, cause: fields["cause"]))
        case (.app(_, .deadLetters), "purge"): Self.removing(fields.all("letter").count)
        case (.app(_, .devices), "forget"):
            Confirmation(
                question: "Forget the device \(fields["device"])?",
                consequence:
                    "Its token, its topics and its history are removed. It gets nothing until its app registers it again.",
                words: "Forget this device",
            )
        case (.app(_, .devices), "forget-user"): try await self.forgetting(app, fields["user"])
        default: nil
        }
    }

    private func cancelling(_ app: AppID, _ send: SendID) async throws -> Confirmation? {
        guard let details = try await self.send(app, send, isWhole: false) else { return nil }
        let (open, planned) = (details.status.total(.open), details.status.planned)
        return Confirmation(
            question: "Cancel \(send) for good?",
            consequence: planned == 0
                ? "Nobody has been reached, and nobody will be. A cancelled send cannot be resumed."
                : "\(NumberText.grouped(open)) of \(NumberText.grouped(planned)) recipients have not been reached, and will not be. "
                    + "A cancelled send cannot be resumed.",
            words: "Cancel for good",
        )
    }

    private func pausing(_ app: AppID, _ name: String) async throws -> Confirmation? {
        guard let route = Route(name), route.app == app else { return nil }
        let count = try await self.installation.store.deviceCount(route)
        return Confirmation(
            question: "Pause \(name)?",
            consequence: "Nothing more goes out to \(Self.counted(count, "device")) of this route until it is resumed. "
                + "What is sent meanwhile waits, and expires when its time to live ends.",
            words: "Pause the route",
            isDestructive: false,
        )
    }

    private func confirming(_ app: AppID, _ route: String) async throws -> Confirmation? {
        guard Route(route)?.app == app,
            let row = try await Quarantines(self.installation).rows().first(where: { $0.route == route })
        else { return nil }
        let tokens = "\(route) has \(Self.counted(row.state.tokens, "token")) in quarantine."
        let kept = row.state.tokens - row.deleting
        guard row.deleting > 0 else {
            return Confirmation(
                question: "Settle the quarantine?",
                consequence:
                    "\(tokens) No device is removed: they are moved, or sent to again.",
                words: "Settle it",
                isDestructive: false,
            )
        }
        let rest =
            kept > 0
            ? " Those of \(Self.counted(kept, "token")) stay: they are moved to the other environment, or sent to again."
            : ""
        return Confirmation(
            question: "Remove the devices of \(Self.counted(row.deleting, "token")) for good?",
            consequence: "\(tokens) Devices that are removed get nothing until their apps register them again.\(rest)",
            words: "Remove their devices",
        )
    }

    /// Returns the number of dead letters that a filter finds, at most as many as one request handles.
    private func letters(of app: AppID, cause: String) async throws -> Int {
        let cause = DeadLetter.Cause.allCases.first { $0.name == cause }
        var count = 0
        try await DeadLetters(self.installation.streams)
            .forEachPart(Self.filter(app, cause), atMost: ConsoleActions.lettersMax) { count += $0.count }
        return count
    }

    private static func replaying(_ count: Int) -> Confirmation? {
        guard count > 0 else { return nil }
        return Confirmation(
            question: "Replay \(Self.counted(count, "dead letter"))?",
            consequence:
                "Each message is written to its stream again, as its row says. Who was reached by a command before may get it "
                + "once more.",
            words: "Replay \(count == 1 ? "it" : "them")",
            isDestructive: false,
        )
    }

    private static func removing(_ count: Int) -> Confirmation? {
        guard count > 0 else { return nil }
        return Confirmation(
            question: "Remove \(Self.counted(count, "dead letter")) for good?",
            consequence: "What is removed can be neither looked at nor replayed.",
            words: "Remove \(count == 1 ? "it" : "them")",
        )
    }

    private func forgetting(_ app: AppID, _ user: String) async throws -> Confirmation {
        let devices = try await self.installation.store.devices(app, ofUser: try UserID(user))
        return Confirmation(
            question: "Forget the user \(user)?",
            consequence:
                "\(Self.counted(devices.count, "device")) of this user, with tokens, topics and histories, and dead letters "
                + "that name the user, are removed.",
            words: "Forget this user",
        )
    }

    private static func counted(_ count: some BinaryInteger, _ noun: String) -> String {
        count == 1 ? "1 \(noun)" : "\(NumberText.grouped(count)) \(noun)s"
    }
}
