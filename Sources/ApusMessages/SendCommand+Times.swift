package import ApusCore

extension SendCommand {
    /// Returns the time at which the command expires; nil if it never does. A notification that allows one attempt has
    /// no expiry here: the provider is told so, and retries end by the retry rules.
    ///
    /// - Parameter now: the publication time of a command that names none, which is possible only before its intake.
    package func deadline(now: UnixMilliseconds) -> UnixMilliseconds? {
        guard let expiry = self.notification.expiry, !expiry.isOneAttempt else { return nil }
        return expiry.deadline(publishedAt: self.publishedAt(now: now))
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

extension Notification.Expiry {
    /// Returns the time at which the notification expires.
    package func deadline(publishedAt: UnixMilliseconds) -> UnixMilliseconds {
        switch self {
        case .at(let time): time
        case .ttl(let milliseconds): publishedAt.advanced(byMilliseconds: milliseconds)
        }
    }

    /// True when the expiry asks for one attempt and no storage.
    package var isOneAttempt: Bool { self == .ttl(milliseconds: 0) }
}
