package import NIOCore

/// Asks Sentinels in rounds who the master is, and decides by their votes. Pure: time and random numbers are arguments.
///
/// The majority of the Sentinels that are configured must agree, whichever answer: a Sentinel that was cut off from the
/// others still names the old master. There is a round every second, soon after a failure, and whenever one is requested
/// (<https://redis.io/docs/latest/develop/reference/sentinel-clients/>).
package struct SentinelPoll: Sendable {
    /// The longest pause between two rounds while all is well; the shortest is half of it.
    package static let quietPause: TimeAmount = .seconds(1)
    /// The longest pause before the next round after a failure.
    static let troublePause: TimeAmount = .milliseconds(200)
    /// The least time between the beginnings of two rounds.
    static let roundPauseMin: TimeAmount = .milliseconds(50)
    /// The time after which a Sentinel's vote counts as missing.
    package static let answerMax: TimeAmount = .seconds(1)

    /// An answer of one Sentinel.
    package enum Vote: Hashable, Sendable {
        /// The Sentinel names the master's address.
        case master(RedisEndpoint)
        /// The Sentinel has no master of that name.
        case unknownName
        /// The Sentinel did not answer, or refused.
        case failed(RedisError)
    }

    /// The result of a round.
    package struct Outcome: Hashable, Sendable {
        /// The number of the round.
        package var round: Int
        /// The master on which a majority agrees, or why there is none.
        package var result: Result<RedisEndpoint, RedisError>
    }

    private let sentinels: [RedisEndpoint]
    private let name: String
    /// The votes of the round that is under way; nil between two rounds.
    private var votes: [RedisEndpoint: Vote]?
    /// The number of the last round that has begun.
    private var round = 0
    /// The highest number of a round that was requested.
    private var requested = 0
    private var beganAt: NIODeadline?
    /// True when something failed since the last round began.
    private var isInTrouble = false
    /// The time of the next event: the next round, or the end of this one.
    package private(set) var dueAt: NIODeadline
    /// The master of the last round that agreed on one. It stays while Sentinels do not answer.
    package private(set) var master: RedisEndpoint?
    /// The number of times that another master was named than before.
    package private(set) var changes = 0
    /// The reason why the last round agreed on none.
    package private(set) var error: RedisError?

    /// Creates a poll whose first round is due at once.
    package init(sentinels: [RedisEndpoint], name: String, now: NIODeadline) {
        precondition(!sentinels.isEmpty)
        self.sentinels = sentinels
        self.name = name
        self.dueAt = now
    }

    /// The number of Sentinels that must agree.
    package var majority: Int { self.sentinels.count / 2 + 1 }

    // MARK: Events

    /// Requests a round that begins from now on. Returns its number: an outcome of that number or a higher one answers.
    package mutating func request(now: NIODeadline) -> Int {
        self.requested = self.round + 1
        if self.votes == nil { self.dueAt = min(self.dueAt, self.earliest(now)) }
        return self.requested
    }

    /// Takes a failure of the master, after which another one may take over.
    package mutating func failed(now: NIODeadline, draw: Double) {
        self.isInTrouble = true
        guard self.votes == nil else { return }
        let pause = Self.part(Self.troublePause, draw)
        self.dueAt = min(self.dueAt, max(now, (self.beganAt ?? now) + pause))
    }

    /// Takes that the time of the next event has come.
    ///
    /// - Returns: the outcome of a round that ends without all votes, and the Sentinels to ask for the round that begins,
    ///   with its number.
    package mutating func hitDeadline(
        now: NIODeadline,
        draw: Double,
    ) -> (outcome: Outcome?, round: Int, questions: [RedisEndpoint]) {
        var outcome: Outcome?
        if let beganAt = self.beganAt, self.votes != nil, now - beganAt >= Self.answerMax {
            let seconds = Self.answerMax.nanoseconds / 1_000_000_000
            for sentinel in self.sentinels where self.votes?[sentinel] == nil {
                self.votes?[sentinel] = .failed(RedisError(.timedOut, "no answer within \(seconds) s"))
            }
            outcome = self.end(now, draw)
        }
        guard self.votes == nil, now >= self.dueAt else { return (outcome, self.round, []) }
        self.round += 1
        self.votes = [:]
        self.beganAt = now
        self.isInTrouble = false
        self.dueAt = now + Self.answerMax
        return (outcome, self.round, self.sentinels)
    }

    /// Takes a vote. Returns the outcome when it decides the round; later votes of the round change nothing.
    package mutating func voted(
        _ vote: Vote,
        by sentinel: RedisEndpoint,
        in round: Int,
        now: NIODeadline,
        draw: Double,
    ) -> Outcome? {
        guard round == self.round, self.votes != nil, self.sentinels.contains(sentinel) else { return nil }
        self.votes?[sentinel] = vote
        let missing = self.sentinels.count - (self.votes?.count ?? 0)
        let most = self.counts.values.max() ?? 0
        guard most >= self.majority || most + missing < self.majority else { return nil }
        return self.end(now, draw)
    }

    // MARK: Decisions

    /// The number of votes for each address.
    private var counts: [RedisEndpoint: Int] {
        var counts: [RedisEndpoint: Int] = [:]
        for case .master(let endpoint)? in self.sentinels.map({ self.votes?[$0] }) { counts[endpoint, default: 0] += 1 }
        return counts
    }

    private mutating func end(_ now: NIODeadline, _ draw: Double) -> Outcome {
        let result: Result<RedisEndpoint, RedisError>
        if let agreed = self.counts.first(where: { $0.value >= self.majority })?.key {
            if let master = self.master, master != agreed { self.changes += 1 }
            (self.master, self.error) = (agreed, nil)
            result = .success(agreed)
        } else {
            let error = self.disagreement
            self.error = error
            result = .failure(error)
        }
        self.votes = nil
        let isWell = self.error == nil && !self.isInTrouble
        let begun = self.beganAt ?? now
        if self.requested > self.round {
            self.dueAt = self.earliest(now)
        } else {
            self.dueAt = max(now, begun + Self.part(isWell ? Self.quietPause : Self.troublePause, draw))
        }
        return Outcome(round: self.round, result: result)
    }

    private func earliest(_ now: NIODeadline) -> NIODeadline {
        max(now, self.beganAt.map { $0 + Self.roundPauseMin } ?? now)
    }

    private static func part(_ pause: TimeAmount, _ draw: Double) -> TimeAmount {
        .nanoseconds(Int64(Double(pause.nanoseconds) * (0.5 + draw / 2)))
    }

    /// The reason why no majority agrees, with its cure.
    private var disagreement: RedisError {
        let votes = self.votes ?? [:]
        let failures = self.sentinels.compactMap { sentinel -> (RedisEndpoint, RedisError)? in
            guard case .failed(let error)? = votes[sentinel] else { return nil }
            return (sentinel, error)
        }
        if let (sentinel, error) = failures.first(where: { $0.1.isCredentials }) {
            let cure = "give their password as redis.sentinel_password_file, or as ?sentinel_password= of an address"
            return RedisError(error.code, "the Sentinel \(sentinel) refuses the log-in (\(error.message)): \(cure)")
        }
        let silent = failures.map { "\($0.0): \($0.1.message)" }.joined(separator: "; ")
        let withoutName = votes.values.count { $0 == .unknownName }
        guard failures.count < votes.count else {
            return RedisError(
                .notConnected,
                "no Sentinel answers (\(silent)): start them, or correct their addresses"
            )
        }
        if withoutName > 0, self.counts.isEmpty {
            let text =
                "no Sentinel has a master named '\(self.name)': correct the name at the end of the address "
                + "(redis-cli -h HOST -p 26379 SENTINEL MASTERS lists the names)"
            // Sentinels that knew it before were reset, and will learn of it again.
            return RedisError(self.master == nil ? .configuration : .notConnected, text)
        }
        var parts = self.counts.sorted { "\($0.key)" < "\($1.key)" }.map { endpoint, count in
            "\(count) \(count == 1 ? "names" : "name") \(endpoint)"
        }
        if withoutName > 0 {
            parts.append("\(withoutName) \(withoutName == 1 ? "has" : "have") none of the name '\(self.name)'")
        }
        if !failures.isEmpty { parts.append("\(failures.count) \(failures.count == 1 ? "does" : "do") not answer") }
        var text = "\(self.majority) of \(self.sentinels.count) Sentinels must agree on the master, but "
        text += parts.joined(separator: ", ")
        if failures.isEmpty {
            text += ": a failover is under way, or they are not of one group"
        } else {
            text += ": start them, or name only those there are in the address (\(silent))"
        }
        return RedisError(.notConnected, text)
    }
}
