package import ApusCore
package import ApusMessages
internal import ApusStore
internal import ApusStreams

/// The rules of a send command that hold whatever routes and credentials there are. Publishers check them before they write a command, so
/// that a mistake is reported where it was made; dispatchers check them when they take one, because anybody may write into a mailbox. Pure.
package enum SendCommandRules {
    /// Checks everything in a command but the time.
    package static func check(_ command: SendCommand) throws(Problem) {
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
        try Self.checkUnits(of: command)
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

    /// Checks that a command need not be kept for longer than `Limits.notBeforeDays` until it may be sent.
    ///
    /// - Parameter now: the time at which it is published, or taken.
    package static func checkHorizon(of command: SendCommand, now: UnixMilliseconds) throws(Problem) {
        let latest = now.advanced(byMilliseconds: Limits.notBeforeMilliseconds)
        guard let start = command.notBefore, start > latest else { return }
        throw Problem(
            code: "too_late",
            field: "not_before_ms",
            detail:
                "is \(start.timestamp); at most \(Limits.notBeforeDays) days ahead are taken, until \(latest.timestamp)",
        )
    }

    /// Checks that a command is not worthless before it may be sent, and need not be kept for too long until then.
    ///
    /// - Parameter now: the time at which it is published.
    package static func checkWorth(of command: SendCommand, now: UnixMilliseconds) throws(Problem) {
        try self.checkHorizon(of: command, now: now)
        guard let deadline = command.deadline(now: now) else { return }
        let start = max(command.notBefore ?? now, now)
        guard deadline <= start else { return }
        let isScheduled = start > now
        throw Problem(
            code: "expired",
            field: command.notification.expiry.map { "notification.\(Self.field(of: $0))" } ?? "published_at_ns",
            detail:
                "ends at \(deadline.timestamp), not after the \(isScheduled ? "start" : "publication") at \(start.timestamp)",
        )
    }

    /// Checks that an app is one of those that are known.
    ///
    /// - Parameter known: the apps of which dispatchers have configured routes; empty when none has run yet, so that nothing is known.
    package static func checkApp(_ app: String, among known: Set<String>) throws(Problem) {
        guard !known.isEmpty, !known.contains(app) else { return }
        let suggestion = closest(to: app, among: known).map { "; did you mean \($0)?" } ?? "."
        let list = known.sorted().joined(separator: ", ")
        throw Problem(
            code: "unknown_app",
            field: "app",
            detail: "there is no app \(app)\(suggestion) The apps are \(list)"
        )
    }

    /// Returns true for the key of a stream that receipts may be written into.
    package static func isReplyStream(_ key: String) -> Bool { key.hasPrefix(StreamKeys.replyPrefix) }

    // MARK: Times

    /// Refuses times that were given in another unit: read as they are, they lie in the seventies.
    private static func checkUnits(of command: SendCommand) throws(Problem) {
        // Zero stands for the time at which Redis took the command.
        if command.publishedAtNanoseconds != 0 {
            try Self.checkUnit(command.publishedAtNanoseconds, "nanoseconds", "published_at_ns")
        }
        if let start = command.notBefore { try Self.checkUnit(start.value, "milliseconds", "not_before_ms") }
        if let expiry = command.notification.expiry, case .at(let end) = expiry {
            try Self.checkUnit(end.value, "milliseconds", "notification.\(Self.field(of: expiry))")
        }
    }

    /// The units of time, each with how many of it are a second.
    private static let units: [(name: String, perSecond: Int64)] = [
        ("nanoseconds", 1_000_000_000), ("microseconds", 1_000_000), ("milliseconds", 1_000), ("seconds", 1),
    ]
    /// The earliest time that is plausible, 2001-09-09T01:46:40Z, in seconds: from there to the year 2286 a time has as many digits.
    private static let secondsMin: Int64 = 1_000_000_000

    private static func checkUnit(_ value: Int64, _ unit: String, _ field: String) throws(Problem) {
        guard let scale = Self.units.first(where: { $0.name == unit })?.perSecond, value < Self.secondsMin * scale
        else {
            return
        }
        let meant = Self.units.first { value / $0.perSecond >= Self.secondsMin }
        let advice =
            meant.map { "it looks like \($0.name): multiply it by \(scale / $0.perSecond)" }
            ?? "times of today have \("\(Self.secondsMin * scale)".count) digits"
        let year = UnixMilliseconds(value / (scale / 1_000)).date.year
        throw Problem(
            code: "invalid_time",
            field: field,
            detail: "must be in \(unit) since 1970, but \(value) of them end in \(year); \(advice)",
        )
    }

    private static func field(of expiry: Notification.Expiry) -> String {
        switch expiry {
        case .at: "expires_at_ms"
        case .ttl: "ttl_ms"
        }
    }

    // MARK: Targets

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
