internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusMetrics
internal import ApusRedis
internal import ApusStore
internal import ApusStreams
internal import Logging

/// Executes the commands of backends in the register stream. Every command may be repeated without harm. It is acknowledged when a
/// replica has its effects, where there is one (``ReplicaBarrier``).
struct CommandHandler: Sendable {
    let keys: StreamKeys
    let streams: SendStreams
    let store: DeviceStore
    let consumer: StreamConsumer
    let order: CommandOrder
    let authenticator: @Sendable () -> Authenticator
    /// The rules of an app for subscriptions.
    let subscriptions: @Sendable (AppID) -> SubscriptionRules
    let metrics: RegistrationMetrics
    let shared: SharedMetrics
    let clock: any WallClock
    let logger: Logger

    /// Handles one entry. An entry whose handling throws stays pending: Redis is away, or others keep changing the same device.
    func handle(_ entry: StreamEntry) async throws {
        let command: RegistrationCommand
        guard !entry.message.isEmpty else {
            return try await self.writeDeadLetter(entry, nil, .malformed, .noMessage)
        }
        do throws(MessageError) { command = try RegistrationCommand.decode(entry.message) } catch {
            let problem = Problem(code: "malformed", field: error.field, detail: error.detail)
            return try await self.writeDeadLetter(entry, nil, .malformed, problem)
        }
        if let detail = entry.burial {
            return try await self.writeDeadLetter(entry, command, .poison, Problem(code: "poison", detail: detail))
        }
        // Before the servers are looked up: what is done afterwards must be on them.
        try await self.order.waitForEarlier(than: entry)
        let ticket = self.streams.barrier?.ticket()
        let slots = self.slots(of: command)
        let servers = try await self.streams.client.serverIdentities(for: slots + [self.keys.tag])
        let home = try await self.streams.client.serverIdentity(for: self.keys.tag)
        let replying = await self.replyServer(of: command)
        do {
            try await self.perform(command)
        } catch let problem as Problem {
            return try await self.writeDeadLetter(entry, command, .invalid, problem)
        } catch let error as StoreError where error.disposition == .bury {
            return try await self.writeDeadLetter(
                entry,
                command,
                .invalid,
                Problem(code: error.code.name, detail: error.detail)
            )
        }
        if let ticket {
            // The user is forgotten before the acknowledgement, so the removals of the devices must be safe on every server.
            var home: HashTag? = self.keys.tag
            if case .deleteUser = command.action { home = nil }
            try await self.streams.barrier?.wait(for: slots, acknowledgedAt: home, since: ticket)
        }
        // One that was restarted or replaced since may have forgotten the effects, and the entry is there still.
        guard try await self.streams.client.serverIdentities(for: slots + [self.keys.tag]) == servers else {
            throw RedisError(.serverChanged, "Redis was replaced while a command was carried out")
        }
        if case .deleteUser(let user) = command.action {
            let user = try Self.user(user, "delete_user")
            try await self.store.forgetUser(try AppID(command.app), user, asOf: command.asOf)
        }
        // These two are conditional: sent to a server that is restarted meanwhile, they would arrive where the effects are not.
        try await self.reply(entry, command, problem: nil, server: replying)
        try await self.streams.entries.acknowledge([entry], by: self.consumer, tag: self.keys.tag, server: home)
    }

    /// Returns the server that has the stream of a command's reply; nil when nobody wants one, or the server does not answer.
    private func replyServer(of command: RegistrationCommand) async -> RedisServerIdentity? {
        guard command.replyTo.hasPrefix(StreamKeys.replyPrefix) else { return nil }
        return try? await self.streams.client.serverIdentity(for: HashTag(ofKey: command.replyTo))
    }

    /// Returns the slots in which a command may have left something: all when it is about the devices of a user.
    private func slots(of command: RegistrationCommand) -> [HashTag] {
        guard let app = try? AppID(command.app) else { return [] }
        switch command.action {
        case .register(let registration): return self.store.slots(app, changedBy: registration)
        case .subscribe(let id, let topics): return self.store.slots(app, changedFor: id, topics: topics)
        case .bindUser(let id, let user): return self.store.slots(app, changedFor: id, user: user)
        case .unregister(let id), .unsubscribe(let id, _), .unbindUser(let id), .setBadge(let id, _),
            .setAttributes(let id, _):
            return self.store.slots(app, changedFor: id)
        case .deleteUser: return self.store.allSlots
        }
    }

    // MARK: Actions

    private func perform(_ command: RegistrationCommand) async throws {
        if !command.replyTo.isEmpty, !command.replyTo.hasPrefix(StreamKeys.replyPrefix) {
            let detail = "a reply stream must begin with \"\(StreamKeys.replyPrefix)\""
            throw Problem(code: "invalid_reply_to", field: "reply_to", detail: detail)
        }
        guard let app = try? AppID(command.app), self.authenticator().knows(app) else {
            let detail = "there is no app \"\(command.app)\" in the configuration"
            throw Problem(code: "unknown_app", field: "app", detail: detail)
        }
        let (store, asOf) = (self.store, command.asOf)
        switch command.action {
        case .register(let registration):
            let rules = self.subscriptions(app)
            if let breach = RegistrationRules.breaches(registration, hosts: rules.hosts).first {
                throw Problem(code: "invalid_registration", field: "register.\(breach.field)", detail: breach.detail)
            }
            let result = try await store.register(
                app,
                registration,
                asOf: asOf,
                assumedServerKey: rules.serverKey
            )
            self.count(result.change.metric, result.device)
            if let badge = registration.badge, result.change != .ignored {
                _ = try await store.setBadge(
                    app,
                    try Self.device(registration.device, "register"),
                    to: badge,
                    asOf: asOf
                )
            }
        case .unregister(let device):
            switch try await store.delete(app, try Self.device(device, "unregister"), asOf: asOf) {
            case .deleted(let last): self.count(.deleted, last)
            case .ignored(let device): self.count(.ignored, device)
            case .missing: break
            }
        case .subscribe(let device, let topics):
            let device = try Self.device(device, "subscribe")
            try self.counted(try await store.subscribe(app, device, to: topics, asOf: asOf))
        case .unsubscribe(let device, let topics):
            let device = try Self.device(device, "unsubscribe")
            try self.counted(try await store.unsubscribe(app, device, from: topics, asOf: asOf))
        case .bindUser(let device, let user):
            let device = try Self.device(device, "bind_user")
            try self.counted(try await store.bindUser(app, device, try Self.user(user, "bind_user"), asOf: asOf))
        case .unbindUser(let device):
            let device = try Self.device(device, "unbind_user")
            try self.counted(try await store.unbindUser(app, device, asOf: asOf))
        case .setBadge(let device, let badge):
            let device = try Self.device(device, "set_badge")
            if let breach = RegistrationRules.badge(badge) {
                throw Problem(code: "invalid_badge", field: "set_badge.badge", detail: breach)
            }
            try self.counted(try await store.setBadge(app, device, to: badge, asOf: asOf))
        case .setAttributes(let device, let attributes):
            let device = try Self.device(device, "set_attributes")
            if let breach = RegistrationRules.attributes(attributes, at: "#/attributes").first {
                let field = "set_attributes.\(breach.field)"
                throw Problem(code: "invalid_registration", field: field, detail: breach.detail)
            }
            try self.counted(try await store.patch(app, device, attributes: attributes, asOf: asOf))
        case .deleteUser(let user):
            let user = try Self.user(user, "delete_user")
            try await ForgottenUser(user, of: app, in: store).forgetLetters(in: self.streams.deadLetters)
            let removed = try await store.deleteDevices(app, ofUser: user, asOf: asOf)
            for device in removed { self.count(.deleted, device) }
        }
    }

    private static func device(_ text: String, _ action: String) throws(Problem) -> DeviceID {
        do throws(IdentifierError) { return try DeviceID(text) } catch {
            throw Problem(code: "invalid_device", field: "\(action).device", detail: "\(error)")
        }
    }

    private static func user(_ text: String, _ action: String) throws(Problem) -> UserID {
        do throws(IdentifierError) { return try UserID(text) } catch {
            throw Problem(code: "invalid_user", field: "\(action).user", detail: "\(error)")
        }
    }

    private func counted(_ result: DeviceStore.ChangeResult) throws(Problem) {
        guard let (change, device) = result.metric else {
            throw Problem(code: "unknown_device", detail: "there is no such device")
        }
        self.count(change, device)
    }

    private func count(_ change: DeviceChange.Change, _ device: StoredDevice) {
        let label = DeviceChange(change: change, source: .stream)
        self.shared.add(to: self.metrics.changes[device.realm.provider, label])
    }

    // MARK: The end of an entry

    private func writeDeadLetter(
        _ entry: StreamEntry,
        _ command: RegistrationCommand?,
        _ cause: DeadLetter.Cause,
        _ problem: Problem,
    ) async throws {
        var letter = DeadLetter(
            stream: entry.stream,
            entry: entry.id,
            cause: cause,
            problem: problem,
            payload: Array(entry.message.prefix(Limits.deadLetterPayloadBytesMax)),
            at: self.clock.now(),
        )
        letter.deliveries = entry.deliveries
        letter.service = "registration"
        letter.app = command?.app ?? ""
        if let command { try await self.reply(entry, command, problem: problem) }
        self.logger.warning(
            "a registration command became a dead letter",
            metadata: ["entry": "\(entry.origin)", "problem": "\(problem)"],
        )
        guard
            try await self.streams.deadLetters.write(
                entry,
                by: self.consumer,
                tag: self.keys.tag,
                letter: letter,
                receipt: nil
            )
        else { return }
        self.shared.add(to: self.metrics.rejected[cause == .malformed ? .malformed : .validation])
    }

    /// Writes the reply to a caller that wants one, at least once; the id is the same each time.
    private func reply(
        _ entry: StreamEntry,
        _ command: RegistrationCommand,
        problem: Problem?,
        server: RedisServerIdentity? = nil,
    ) async throws {
        guard command.replyTo.hasPrefix(StreamKeys.replyPrefix) else { return }
        var receipt = SendReceipt(
            id: "register:\(entry.origin)",
            send: command.id.clipped(toBytes: Limits.sendIDBytesMax),
            app: command.app,
            kind: problem == nil ? .final : .refused,
        )
        receipt.problem = problem
        receipt.traceparent = command.traceparent
        try await self.streams.outcomes.write(
            receipt,
            replyTo: command.replyTo,
            tag: self.keys.tag,
            server: server,
        )
    }
}

extension ProblemDetails.Part {
    /// Returns a path in the form of messages: `#/attributes/tags/3` is `attributes.tags[3]`.
    fileprivate var field: String {
        self.pointer.dropFirst(2).split(separator: "/").reduce(into: "") { field, step in
            if step.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
                field += "[\(step)]"
            } else {
                field += field.isEmpty ? String(step) : ".\(step)"
            }
        }
    }
}
