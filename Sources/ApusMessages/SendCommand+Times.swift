package import ApusCore

extension SendCommand {
    /// Returns the time at which the command expires; nil if it never does.
    ///
    /// A call, push to talk, and a notification for named recipients that allows one attempt are worth something only about their publication, or
    /// their due time if that is later: they expire after ``Notification/Expiry/oneAttemptGraceMilliseconds``, in which they may be retried. What goes to an
    /// audience may take longer by its size or its rate: there, one attempt is what providers are told.
    ///
    /// - Parameter now: the publication time of a command that names none, which is possible only before its intake.
    package func deadline(now: UnixMilliseconds) -> UnixMilliseconds? {
        guard let expiry = self.notification.effectiveExpiry else { return nil }
        guard expiry.isOneAttempt else { return expiry.deadline(publishedAt: self.publishedAt(now: now)) }
        guard self.isForTheMoment else { return nil }
        let grace = Notification.Expiry.oneAttemptGraceMilliseconds
        return self.resolvedAt(now: now).advanced(byMilliseconds: grace)
    }

    /// True when the notification allows one attempt and is worth nothing later.
    package var isForTheMoment: Bool {
        guard self.notification.effectiveExpiry?.isOneAttempt == true else { return false }
        switch (self.notification.kind, self.target) {
        case (.voip, _), (.pushToTalk, _), (_, .addresses), (_, .devices), (_, .users): return true
        default: return false
        }
    }

    /// Returns the value of `now` in the command's expression: its publication time, or its due time if that is later.
    package func resolvedAt(now: UnixMilliseconds) -> UnixMilliseconds {
        let publishedAt = self.publishedAt(now: now)
        return max(publishedAt, self.notBefore ?? publishedAt)
    }

    /// Returns the publication time; `now` if the command names none.
    package func publishedAt(now: UnixMilliseconds) -> UnixMilliseconds {
        self.publishedAtNanoseconds > 0 ? UnixMilliseconds(self.publishedAtNanoseconds / 1_000_000) : now
    }
}

extension Notification {
    /// The expiry: the publisher's; without one, one attempt for a call and for push to talk, which are worth nothing later: a call that could
    /// not be delivered might otherwise ring up to 30 days later.
    ///
    /// Source: https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns,
    /// https://developer.apple.com/documentation/pushkit/responding-to-voip-notifications-from-pushkit
    package var effectiveExpiry: Expiry? {
        if let expiry { return expiry }
        return switch self.kind {
        case .voip, .pushToTalk: .ttl(milliseconds: 0)
        case .alert, .background, .complication, .fileProvider, .mdm, .location, .liveActivity, .widgets, .controls: nil
        }
    }
}

extension Notification.Expiry {
    /// The time after which a notification that allows one attempt expires. It is long enough for clocks that differ by less, for requests that
    /// are lost with their connection or meet a server in trouble, and for a dispatcher that takes over the work of another.
    package static let oneAttemptGraceMilliseconds: Int64 = 60_000

    /// Returns the time at which the notification expires, which is not beyond the latest one that a message may name.
    package func deadline(publishedAt: UnixMilliseconds) -> UnixMilliseconds {
        switch self {
        case .at(let time): time
        case .ttl(let milliseconds): min(publishedAt.advanced(byMilliseconds: milliseconds), Limits.timeMax)
        }
    }

    /// True when the expiry asks for one attempt and no storage.
    package var isOneAttempt: Bool { self == .ttl(milliseconds: 0) }
}
