package import ApusCore
package import ApusHTTP2
package import ApusProviders
package import NIOCore
internal import Synchronization

/// Provides the tokens of an app's VAPID keys: one for each key and push service, signed once and used for eleven hours.
///
/// A token is bound to an origin (RFC 8292 §2), and one of the services asks for no new one more often than once an hour.
package final class VAPIDCredential: ProviderCredential {
    /// The life of a token; RFC 8292 §2 allows 24 hours, by the clock of the push service.
    static let lifeMilliseconds: Int64 = 12 * 3_600_000
    /// The life that a token must have left to be used.
    static let refreshMilliseconds: Int64 = 3_600_000
    /// The time after a refusal within which another one is no matter of the token's age.
    static let refusalMilliseconds: Int64 = 3_600_000
    /// The maximum number of refusals that are about their recipients since a push service last accepted a token. A gateway tells of one in
    /// `ProviderGateway.refusedInARowMax`.
    package static let excusedMax = 64

    private struct Entry {
        var token: VAPIDToken
        var header: HeaderValue
        var usedAt: UnixMilliseconds
        /// The time at which a push service refused a token of this origin last.
        var refusedAt: UnixMilliseconds?
        /// The time at which it last accepted one, on whatever event loop.
        var acceptedAt: UnixMilliseconds?
        /// The number of refusals since then that were about their recipients.
        var excused = 0
        /// True when it has refused a freshly signed one too.
        var isRefused = false

        /// Returns true if the push service has accepted the key lately, and not refused it too often since: then a refusal is about its recipient.
        func isAccepted(now: UnixMilliseconds) -> Bool {
            guard let acceptedAt, self.excused < VAPIDCredential.excusedMax else { return false }
            return (0..<VAPIDCredential.refusalMilliseconds).contains(now.milliseconds(since: acceptedAt))
        }
    }

    /// The current key first, then those that browsers have subscribed with before. ``Origin/credential`` is an index into it.
    private let keys: [VAPIDKey]
    private let clock: any WallClock
    /// Called with true for each token that was signed, and with false for each failed attempt.
    private let minted: @Sendable (Bool) -> Void
    /// The tokens, of ``Limits/originsMax`` origins at most; the one unused for longest makes room.
    private let entries = Mutex<[Origin: Entry]>([:])

    /// Creates the credential of at least one key, the current one first.
    package init(
        keys: [VAPIDKey],
        clock: any WallClock,
        minted: @escaping @Sendable (Bool) -> Void = { _ in },
    ) {
        self.keys = keys
        self.clock = clock
        self.minted = minted
    }

    /// Returns the index of the key with a public point; nil when none has it.
    func index(ofPublicPoint point: Span<UInt8>) -> Int? {
        self.keys.firstIndex { key in
            key.publicPoint.count == point.count && point.indices.allSatisfy { key.publicPoint[$0] == point[$0] }
        }
    }

    /// Returns the credential of connections to one push service.
    package func credential(for origin: Origin) -> any ProviderCredential {
        VAPIDOriginCredential(of: self, for: origin)
    }

    /// Returns the current token of an origin, signed anew when its life ends soon.
    func grant(for origin: Origin) -> CredentialGrant {
        let now = self.clock.now()
        return self.entries.withLock { entries in
            guard var entry = entries[origin] else { return self.sign(for: origin, now: now, &entries, refusedAt: nil) }
            guard !entry.isRefused else { return Self.refused(origin) }
            guard entry.token.expiresAt.milliseconds(since: now) > Self.refreshMilliseconds else {
                return self.sign(for: origin, now: now, &entries, refusedAt: entry.refusedAt)
            }
            entry.usedAt = now
            entries[origin] = entry
            return Self.usable(entry)
        }
    }

    /// Records that a push service accepted a token.
    func accepted(for origin: Origin) {
        let now = self.clock.now()
        self.entries.withLock { entries in
            entries[origin]?.acceptedAt = now
            entries[origin]?.excused = 0
            entries[origin]?.isRefused = false
        }
    }

    /// Records that a push service refused a token. It is signed anew once: the clock may have been wrong. After that, it is at fault unless the
    /// service accepts others with it.
    func rejected(_ header: HeaderValue, for origin: Origin) -> CredentialGrant {
        let now = self.clock.now()
        return self.entries.withLock { entries in
            guard let entry = entries[origin], entry.header === header, !entry.isRefused else {
                guard let entry = entries[origin] else {
                    return self.sign(for: origin, now: now, &entries, refusedAt: now)
                }
                return entry.isRefused ? Self.refused(origin) : Self.usable(entry)
            }
            if let refusedAt = entry.refusedAt, now.milliseconds(since: refusedAt) < Self.refusalMilliseconds {
                guard entry.isAccepted(now: now) else {
                    entries[origin]?.isRefused = true
                    return Self.refused(origin)
                }
                entries[origin]?.excused += 1
                return Self.usable(entry)
            }
            return self.sign(for: origin, now: now, &entries, refusedAt: now)
        }
    }

    private func sign(
        for origin: Origin,
        now: UnixMilliseconds,
        _ entries: inout [Origin: Entry],
        refusedAt: UnixMilliseconds?,
    ) -> CredentialGrant {
        do {
            let token = try self.keys[origin.credential].sign(
                for: origin,
                expiresAt: now.advanced(byMilliseconds: Self.lifeMilliseconds)
            )
            let header = try HeaderValue(token.authorization)
            if entries[origin] == nil, entries.count >= Limits.originsMax,
                let oldest = entries.min(by: { $0.value.usedAt.value < $1.value.usedAt.value })
            {
                entries[oldest.key] = nil
            }
            var entry = Entry(token: token, header: header, usedAt: now, refusedAt: refusedAt)
            if let former = entries[origin] { (entry.acceptedAt, entry.excused) = (former.acceptedAt, former.excused) }
            entries[origin] = entry
            self.minted(true)
            return Self.usable(entry)
        } catch {
            self.minted(false)
            return .paused(detail: "\(error)")
        }
    }

    private static func usable(_ entry: Entry) -> CredentialGrant {
        .usable(entry.header, askAgainAt: entry.token.expiresAt.advanced(byMilliseconds: -Self.refreshMilliseconds))
    }

    private static func refused(_ origin: Origin) -> CredentialGrant {
        .paused(detail: "\(origin) refuses a newly signed token: key, subject or clock are wrong")
    }

    // MARK: ProviderCredential

    /// Returns that nothing can be sent: every push service needs a token of its own.
    package func grant(on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        eventLoop.makeSucceededFuture(.paused(detail: "a token is for one push service"))
    }

    package func rejected(_ header: HeaderValue, on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        self.grant(on: eventLoop)
    }

    package func renewedTooOften() {}

    /// Forgets all refusals.
    package func restored() {
        self.entries.withLock { entries in
            for origin in entries.keys {
                entries[origin]?.isRefused = false
                entries[origin]?.refusedAt = nil
            }
        }
    }

    /// Lets one push service be asked again, with the same token: a new one is signed no sooner for that.
    func restored(_ origin: Origin) { self.entries.withLock { $0[origin]?.isRefused = false } }

    /// Nil: a token is signed whenever it is needed, so its end is no one's concern.
    package var expiresAt: UnixMilliseconds? { nil }
}

/// Provides the tokens of one VAPID key for one push service.
final class VAPIDOriginCredential: ProviderCredential {
    private let tokens: VAPIDCredential
    private let origin: Origin

    init(of tokens: VAPIDCredential, for origin: Origin) {
        self.tokens = tokens
        self.origin = origin
    }

    func grant(on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        eventLoop.makeSucceededFuture(self.tokens.grant(for: self.origin))
    }

    func rejected(_ header: HeaderValue, on eventLoop: any EventLoop) -> EventLoopFuture<CredentialGrant> {
        eventLoop.makeSucceededFuture(self.tokens.rejected(header, for: self.origin))
    }

    func accepted() { self.tokens.accepted(for: self.origin) }
    func renewedTooOften() {}
    func restored() { self.tokens.restored(self.origin) }
    var expiresAt: UnixMilliseconds? { nil }
}
