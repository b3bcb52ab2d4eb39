internal import ApusCore
internal import ApusMessages
internal import ApusProviders
internal import ApusStore
internal import ApusStreams

/// What is to be done with a command, decided from its bytes, the configuration and the time: pure.
enum IntakeDecision: Equatable, Sendable {
    /// It breaks a rule: dead letter and receipt, which goes where the head says.
    case refuse(DeadLetter.Cause, Problem, CommandHead)
    /// It is worth nothing any more, or will not be when its time comes: a receipt, and that is all.
    case expired(SendCommand)
    /// Few recipients, now: straight to the providers.
    case direct(SendCommand)
    /// An audience, a later time, or a send that may go out once only, which needs a journal: by way of a plan.
    case plan(SendCommand, due: UnixMilliseconds?)
    /// Nothing is to be sent: a receipt that says what would be.
    case dryRun(SendCommand)

    /// Decides. What the providers' rules say of the notification comes later, when it is written out.
    ///
    /// - Parameters:
    ///   - writtenAt: when Redis took it: what counts as its publication if it names none. It goes on with the command, for a time to
    ///     live that counted from each look at it would never end.
    ///   - providers: checks a target whose audience a provider holds.
    ///   - isFirstDelivery: else the command may be under way already, and is not told as expired.
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
        // Whether a time that is near has come is decided by Redis' clock, which all dispatchers share: it dated the entry, and
        // plans wait by it. This machine's only tells what is long past.
        let longPast = now.advanced(byMilliseconds: -StreamLimits.clockSkewMaxMilliseconds)
        let surelyPast = max(writtenAt ?? longPast, longPast)
        let due = command.notBefore.flatMap { $0 > surelyPast ? $0 : nil }
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

    /// The fields of a head that a receipt may carry and go by.
    static func usable(_ head: CommandHead) -> CommandHead {
        var head = head
        if (try? AppID(head.app)) == nil { head.app = "" }
        if (try? SendID(head.id)) == nil { head.id = "" }
        if !Self.isReplyStream(head.replyTo) { head.replyTo = "" }
        return head
    }

    private static func isReplyStream(_ key: String) -> Bool { key.hasPrefix(StreamKeys.replyPrefix) }

    /// Whether the target has few recipients by itself, so that it needs no plan.
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
        // Its provider knows what it may be.
        default: break
        }
    }

    private static func empty(_ field: String) -> Problem {
        Problem(code: "no_recipients", field: field, detail: "names nobody")
    }
}

extension SendCommand {
    /// When it loses its worth; nil: never. A message that may be tried once only has no expiry here: the provider is told so, and a
    /// retry gives up by its policy.
    ///
    /// - Parameter now: what counts as the time of publication when the command names none: only before it was taken.
    func deadline(now: UnixMilliseconds) -> UnixMilliseconds? {
        guard let expiry = self.notification.expiry, !expiry.isOneAttempt else { return nil }
        return expiry.deadline(publishedAt: self.publishedAt(now: now))
    }

    /// When it was published, as far as the command says so.
    func publishedAt(now: UnixMilliseconds) -> UnixMilliseconds {
        self.publishedAtNanoseconds > 0 ? UnixMilliseconds(self.publishedAtNanoseconds / 1_000_000) : now
    }
}
