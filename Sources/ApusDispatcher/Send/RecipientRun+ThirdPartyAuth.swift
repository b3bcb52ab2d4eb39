internal import ApusCore

/// Recipients whom the provider reaches through a third party, and who wait while that does not take our credential there.
///
/// A token does not tell that it needs the third party before the provider says so. Whoever was refused for that waits in units of their
/// own, and when their time has come one of each unit is sent to, for all of it: refused again, all wait longer. That is no attempt and
/// has no end but the message's: somebody must correct the key at the provider. Whoever needs no third party goes on.
extension RecipientRun {
    /// How long they wait: doubled with each time, from the first to the last.
    static let thirdPartyAuthWaitMilliseconds: ClosedRange<Int64> = 60_000...900_000
    /// As which attempt they are sent to at most: what else is refused later has tries left.
    static let thirdPartyAuthAttemptsMax: UInt32 = 5

    /// Whether an answer shows that the third party takes our credential, if it was one about a device of its own.
    static func showsThirdPartyAuth(_ outcome: DeliveryOutcome) -> Bool {
        switch outcome {
        case .accepted, .unregistered, .suspect, .rejected: true
        case .misconfigured, .deferred, .lost: false
        }
    }

    /// When who waits is sent to again.
    ///
    /// - Parameter draw: a random number in 0..<1: up to half of the wait less, so that units do not come back together.
    static func thirdPartyAuthDue(attempt: UInt32, now: UnixMilliseconds, draw: Double) -> UnixMilliseconds {
        let doublings = min(max(attempt, 1), Self.thirdPartyAuthAttemptsMax) - 1
        let wait = min(
            self.thirdPartyAuthWaitMilliseconds.lowerBound << Int64(doublings),
            self.thirdPartyAuthWaitMilliseconds.upperBound
        )
        return now.advanced(byMilliseconds: wait - Int64(Double(wait) * 0.5 * draw))
    }

    /// Defers a recipient, and everybody of whom it is known that they need the third party.
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
                self.deferred.append(Deferred(index: index, due: due, reason: .credentials, isForThirdPartyAuth: true))
                if self.deferredSince == nil { self.deferredSince = now }
            }
        }
    }
}
