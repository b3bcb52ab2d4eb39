internal import ApusCore

/// Groups retries into units.
extension RecipientRun {
    /// A retry may wait for others of its unit for one part in this many of its own wait, and for at least a second.
    static let companyParts: Int64 = 4
    /// The maximum attempt number that a recipient reaches by being put off without a request: it makes the waits longer, and leaves
    /// attempts for requests. Only the expiry ends it.
    static let unsentAttemptsMax: UInt32 = 8

    /// Groups many retries into few units.
    ///
    /// No recipient is retried before its time, and none waits much longer to share a unit. Without grouping, a unit
    /// that splits at every attempt would end as one unit per recipient.
    static func grouped(
        _ deferred: [Deferred],
        now: UnixMilliseconds
    ) -> [(due: UnixMilliseconds, indices: [Int])] {
        var groups: [(due: UnixMilliseconds, indices: [Int])] = []
        var latest = UnixMilliseconds(0)
        for waiting in deferred.sorted(by: { $0.due < $1.due }) {
            let due = UnixMilliseconds(seconds: (waiting.due.value + 999) / 1_000)
            if !groups.isEmpty, due <= latest {
                groups[groups.count - 1].due = due
                groups[groups.count - 1].indices.append(waiting.index)
            } else {
                groups.append((due, [waiting.index]))
                let wait = max(0, due.milliseconds(since: now))
                latest = due.advanced(byMilliseconds: max(1_000, wait / Self.companyParts))
            }
        }
        return groups.map { ($0.due, $0.indices.sorted()) }
    }
}

/// Defers recipients that the provider reaches through a third party, while that party does not accept our credential.
///
/// A token does not show that it needs the third party until the provider says so. The recipients that were refused for
/// this reason wait in units of their own. When their time has come, one recipient of each unit is sent to on behalf of
/// all; if it is refused again, all wait longer. This is no attempt, and ends only when the message expires, because an
/// operator must correct the key at the provider. Recipients that need no third party are sent to as usual.
extension RecipientRun {
    /// The range of the wait, which doubles with each refusal.
    static let thirdPartyAuthWaitMilliseconds: ClosedRange<Int64> = 60_000...900_000
    /// The maximum attempt number with which they are sent. A later failure of another kind thus has attempts left.
    static let thirdPartyAuthAttemptsMax: UInt32 = 5

    /// Returns true when an answer about a device that needs the third party shows that it accepts our credential.
    static func showsThirdPartyAuth(_ outcome: DeliveryOutcome) -> Bool {
        switch outcome {
        case .accepted, .unregistered, .suspect, .rejected: true
        case .misconfigured, .deferred, .lost: false
        }
    }

    /// Returns the time at which a waiting recipient is sent to again.
    ///
    /// - Parameter draw: a random number in 0..<1. It shortens the wait by up to half, so that units do not return
    ///   together.
    static func thirdPartyAuthDue(attempt: UInt32, now: UnixMilliseconds, draw: Double) -> UnixMilliseconds {
        let doublings = min(max(attempt, 1), Self.thirdPartyAuthAttemptsMax) - 1
        let wait = min(
            self.thirdPartyAuthWaitMilliseconds.lowerBound << Int64(doublings),
            self.thirdPartyAuthWaitMilliseconds.upperBound
        )
        return now.advanced(byMilliseconds: wait - Int64(Double(wait) * 0.5 * draw))
    }

    /// Defers a recipient, and all recipients that are known to need the third party.
    mutating func waitForThirdPartyAuth(_ index: Int, _ now: UnixMilliseconds, _ draw: Double) {
        var waiting = [index]
        if self.isAskingThirdPartyAuth {
            waiting += self.again.map { Int($0) } + (self.next..<self.table.rows.count).filter { self.isUnsent($0) }
            self.again.removeAll()
            self.next = self.table.rows.count
        }
        let due = Self.thirdPartyAuthDue(attempt: self.terms.attempt, now: now, draw: draw)
        for index in waiting {
            if let expiresAt = self.terms.expiresAt, due >= expiresAt {
                self.close(index, .expired, .ttl, now: now)
            } else {
                let isAnswered = index == waiting[0]
                self.wait(
                    Deferred(
                        index: index,
                        due: due,
                        reason: .credentials,
                        cause: .thirdPartyAuth,
                        isAnswered: isAnswered
                    ),
                    now: now
                )
            }
        }
    }
}

/// Defers the recipients of a refused subroute.
extension RecipientRun {
    /// Defers all recipients that are not in flight because their subroute is refused. That is no attempt. While recipients are being read again
    /// none is deferred: what is read may end them, and they are looked at after it.
    ///
    /// - Parameters:
    ///   - milliseconds: the time after which they are looked at again.
    ///   - draw: a random number in 0..<1. It adds up to a tenth, so that some units ask before the others come.
    mutating func waitForSubroute(milliseconds: Int64, now: UnixMilliseconds, draw: Double) {
        guard !self.isBeingRechecked else { return }
        self.abandonProbes(now: now)
        let waiting = self.again.map { Int($0) } + (self.next..<self.table.rows.count).filter { self.isUnsent($0) }
        self.again.removeAll()
        self.next = self.table.rows.count
        let due = now.advanced(byMilliseconds: milliseconds + Int64(Double(milliseconds) * 0.1 * draw))
        for index in waiting {
            if let expiresAt = self.terms.expiresAt, due >= expiresAt {
                self.close(index, .expired, .ttl, now: now)
            } else {
                self.wait(
                    Deferred(index: index, due: due, reason: .credentials, cause: .subroute, isAnswered: false),
                    now: now
                )
            }
        }
    }
}
