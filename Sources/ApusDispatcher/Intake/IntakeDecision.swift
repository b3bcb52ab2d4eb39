internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusProviders
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
    ///   - writtenAt: the time when Redis received the command. It is the publication time if the command names none, or allows one attempt,
    ///     and is kept with the command, because a time to live that restarted with each attempt would never end.
    ///   - providers: the providers, which check targets whose audience they hold.
    ///   - publisher: the rules of the publisher whose own mailbox the command stood in; nil for the shared one.
    init(
        message: [UInt8],
        writtenAt: UnixMilliseconds? = nil,
        now: UnixMilliseconds,
        providers: ProviderList,
        publisher: PublisherRules? = nil,
    ) {
        var command: SendCommand
        guard !message.isEmpty else {
            self = .refuse(.malformed, .noMessage, Self.usable(CommandHead(reading: message), by: publisher))
            return
        }
        do throws(MessageError) {
            command = try SendCommand.decode(message)
        } catch {
            let problem = Problem(code: "malformed", field: error.field, detail: error.detail)
            self = .refuse(.malformed, problem, Self.usable(CommandHead(reading: message), by: publisher))
            return
        }
        do throws(Problem) {
            if let publisher { command = try publisher.permitted(command) }
            try SendCommandRules.check(command)
            try providers.check(command.target)
            // Clocks may differ.
            let latest = now.advanced(byMilliseconds: StreamLimits.clockSkewMaxMilliseconds)
            try SendCommandRules.checkHorizon(of: command, now: latest)
        } catch {
            self = .refuse(.invalid, error, Self.usable(CommandHead(command), by: publisher))
            return
        }
        if command.publishedAtNanoseconds == 0 {
            command.publishedAtNanoseconds = min(writtenAt ?? now, now).value * 1_000_000
        } else if let writtenAt, command.isForTheMoment {
            // A message for the moment counts from its entry: a publisher whose clock is behind must not lose its calls.
            let received = min(writtenAt, now).value * 1_000_000
            command.publishedAtNanoseconds = max(command.publishedAtNanoseconds, received)
        }
        // Redis' clock, which all dispatchers share, decides whether a time has come: it dated the entry, and plans wait by it.
        // This machine's clock shows only that a time is past by more than clocks may differ.
        let pastByThisClock = now.advanced(byMilliseconds: -StreamLimits.clockSkewMaxMilliseconds)
        // Where Redis' clock went back, ids stay ahead of it until it has caught up: such a time has not come.
        let latest = now.advanced(byMilliseconds: StreamLimits.clockSkewMaxMilliseconds)
        let past = max(min(writtenAt ?? pastByThisClock, latest), pastByThisClock)
        let due = command.notBefore.flatMap { $0 > past ? $0 : nil }
        if let deadline = command.deadline(now: now), deadline <= max(due ?? now, now) {
            self = .expired(command)
            return
        }
        guard !command.dryRun else {
            self = .dryRun(command)
            return
        }
        let isDirect = due == nil && command.delivery == .atLeastOnce && Self.isSmall(command.target)
        self = isDirect ? .direct(consume command) : .plan(consume command, due: due)
    }

    /// Returns a head without the fields that a receipt cannot carry or go by.
    ///
    /// - Parameter publisher: the rules of the publisher whose own mailbox the command stood in; nil for the shared one.
    static func usable(_ head: CommandHead, by publisher: PublisherRules?) -> CommandHead {
        var head = head
        if (try? AppID(head.app)) == nil { head.app = "" }
        if (try? SendID(head.id)) == nil { head.id = "" }
        if !SendCommandRules.isReplyStream(head.replyTo) { head.replyTo = "" }
        return publisher?.permitted(head) ?? head
    }

    /// Returns true for a target whose recipients are few enough to need no plan.
    private static func isSmall(_ target: Target) -> Bool {
        switch target {
        case .addresses(let addresses): addresses.count <= Limits.directRecipientsMax
        case .devices(let ids), .users(let ids): ids.count <= Limits.directRecipientsMax
        default: target.holder != nil
        }
    }
}
