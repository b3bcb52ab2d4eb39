internal import ApusCore
internal import ApusMessages
internal import ApusProviders
internal import ApusStore
internal import ApusStreams

/// Decides how to handle a command, from its bytes, the configuration and the time. Pure.
enum IntakeDecision: Equatable, Sendable {
    /// The command breaks a rule: it gets a dead letter, and a receipt that goes where the head says.
    case refuse(DeadLetter.Cause, Problem, CommandHead)
    /// The command has expired, or will have when it becomes due: it gets only a receipt.
    case expired(SendCommand)
    /// The command has few recipients and is due: it is sent to the providers without a plan.
    case direct(SendCommand)
    /// The command has an audience or a later time, or may be sent at most once, which needs a journal: it is planned.
    case plan(SendCommand, due: UnixMilliseconds?)
    /// The command is a dry run: it gets a receipt that says what would be sent.
    case dryRun(SendCommand)

    /// Decides on a command. The providers' rules for the notification are checked later, when it is rendered.
    ///
    /// - Parameters:
    ///   - writtenAt: the time when Redis received the command. It is the publication time if the command names none,
    ///     and is kept with the command, because a time to live that restarted with each attempt would never end.
    ///   - providers: the providers, which check targets whose audience they hold.
    ///   - isFirstDelivery: false if the entry was delivered before. The command may then be in progress already, and
    ///     is not reported as expired.
    init(
        message: [UInt8],
        writtenAt: UnixMilliseconds? = nil,
        now: UnixMilliseconds,
        isFirstDelivery: Bool = true,
        providers: ProviderList,
    ) {
        var command: SendCommand
        do throws(MessageError) {
            command = try SendCommand.decode(message)
        } catch {
            let problem = Problem(code: "malformed", field: error.field, detail: error.detail)
            self = .refuse(.malformed, problem, Self.usable(CommandHead(reading: message)))
            return
        }
        do throws(Problem) {
            try Self.check(command)
            try providers.check(command.target)
        } catch {
            self = .refuse(.invalid, error, Self.usable(CommandHead(command)))
            return
        }
        if command.publishedAtNanoseconds == 0 {
            command.publishedAtNanoseconds = min(writtenAt ?? now, now).value * 1_000_000
        }
        // Redis' clock, which all dispatchers share, decides whether a time has come: it dated the entry, and plans wait by it.
        // This machine's clock shows only that a time is past by more than clocks may differ.
        let pastByThisClock = now.advanced(byMilliseconds: -StreamLimits.clockSkewMaxMilliseconds)
        let past = max(writtenAt ?? pastByThisClock, pastByThisClock)
        let due = command.notBefore.flatMap { $0 > past ? $0 : nil }
        if isFirstDelivery, let deadline = command.deadline(now: now), deadline <= max(due ?? now, now) {
            self = .expired(command)
            return
        }
        guard !command.dryRun else {
            self = .dryRun(command)
            return
        }
        let isDirect = due == nil && command.delivery == .atLeastOnce && Self.isSmall(command.target)
        self = isDirect ? .direct(command) : .plan(command, due: due)
    }

    /// Returns a head without the fields that a receipt cannot carry or go by.
    static func usable(_ head: CommandHead) -> CommandHead {
        var head = head
        if (try? AppID(head.app)) == nil { head.app = "" }
        if (try? SendID(head.id)) == nil { head.id = "" }
        if !Self.isReplyStream(head.replyTo) { head.replyTo = "" }
        return head
    }

    private static func isReplyStream(_ key: String) -> Bool { key.hasPrefix(StreamKeys.replyPrefix) }

    /// Returns true for a target whose recipients are few enough to need no plan.
    private static func isSmall(_ target: Target) -> Bool {
        switch target {
        case .addresses(let addresses): addresses.count <= Limits.directRecipientsMax
        case .devices(let ids), .users(let ids): ids.count <= Limits.directRecipientsMax
        default: target.holder != nil
        }
    }

    private static func check(_ command: SendCommand) throws(Problem) {
        do { _ = try AppID(command.app) } catch {
            throw Problem(code: "invalid_app", field: "app", detail: error.description)
        }
        if !command.id.isEmpty {
            do { _ = try SendID(command.id) } catch {
                throw Problem(code: "invalid_id", field: "id", detail: error.description)
            }
        }
        if !command.replyTo.isEmpty, !Self.isReplyStream(command.replyTo) {
            throw Problem(
                code: "invalid_reply_to",
                field: "reply_to",
                detail: "a reply stream must begin with \"\(StreamKeys.replyPrefix)\"",
            )
        }
        if case .increment = command.notification.badge, case .addresses = command.target {
            throw Problem(
                code: "contradiction",
                field: "notification.badge_increment",
                detail: "counts for registered devices; of an address nothing is remembered: use badge_set",
            )
        }
        if let activity = command.notification.liveActivity, activity.event != .start, activity.activityID.isEmpty,
            command.target.isOfDevices
        {
            throw Problem(
                code: "missing_value",
                field: "notification.live_activity.activity_id",
                detail: "is required: a device has a token for each of its Live Activities",
            )
        }
        try Self.check(command.target)
    }

    private static func check(_ target: Target) throws(Problem) {
        switch target {
        case .addresses(let addresses):
            guard !addresses.isEmpty else { throw Self.empty("target.addresses") }
            for (index, address) in addresses.enumerated() {
                let traits = address.provider.traits
                guard !traits.tokenKinds.contains(address.kind) else { continue }
                throw Problem(
                    code: "invalid_kind",
                    field: "target.addresses[\(index)].kind",
                    detail: "is no kind of token that \(traits.name) has",
                )
            }
        case .devices(let ids):
            guard !ids.isEmpty else { throw Self.empty("target.devices") }
            for (index, id) in ids.enumerated() {
                do { _ = try DeviceID(id) } catch {
                    throw Problem(code: "invalid_device", field: "target.devices[\(index)]", detail: error.description)
                }
            }
        case .users(let ids):
            guard !ids.isEmpty else { throw Self.empty("target.users") }
            for (index, id) in ids.enumerated() {
                do { _ = try UserID(id) } catch {
                    throw Problem(code: "invalid_user", field: "target.users[\(index)]", detail: error.description)
                }
            }
        case .topic(let name):
            do { _ = try TopicName(name) } catch {
                throw Problem(code: "invalid_topic", field: "target.topic", detail: error.description)
            }
        case .condition(let text):
            do { _ = try TopicCondition(parsing: text) } catch {
                throw Problem(code: "invalid_condition", field: "target.condition", detail: error.description)
            }
        case .expression(let text):
            do { _ = try AudienceExpression(parsing: text) } catch {
                throw Problem(code: "invalid_expression", field: "target.expression", detail: error.description)
            }
        // The provider checks targets of its own.
        default: break
        }
    }

    private static func empty(_ field: String) -> Problem {
        Problem(code: "no_recipients", field: field, detail: "names no recipients")
    }
}

extension SendCommand {
    /// Returns the time at which the command expires; nil if it never does. A notification that allows one attempt has
    /// no expiry here: the provider is told so, and retries end by the retry rules.
    ///
    /// - Parameter now: the publication time of a command that names none, which is possible only before its intake.
    func deadline(now: UnixMilliseconds) -> UnixMilliseconds? {
        guard let expiry = self.notification.expiry, !expiry.isOneAttempt else { return nil }
        return expiry.deadline(publishedAt: self.publishedAt(now: now))
    }

    /// Returns the value of `now` in the command's expression: its publication time, or its due time if that is later.
    func resolvedAt(now: UnixMilliseconds) -> UnixMilliseconds {
        let publishedAt = self.publishedAt(now: now)
        return max(publishedAt, self.notBefore ?? publishedAt)
    }

    /// Returns the publication time; `now` if the command names none.
    func publishedAt(now: UnixMilliseconds) -> UnixMilliseconds {
        self.publishedAtNanoseconds > 0 ? UnixMilliseconds(self.publishedAtNanoseconds / 1_000_000) : now
    }
}
