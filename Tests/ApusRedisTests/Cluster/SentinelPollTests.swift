import ApusRedis
import NIOCore
import Testing

/// The rounds of questions to Sentinels, driven by votes and time alone.
@Suite struct SentinelPollTests {
    private let s1 = Self.endpoint("s1")
    private let s2 = Self.endpoint("s2")
    private let s3 = Self.endpoint("s3")
    private let a = Self.endpoint("a")
    private let b = Self.endpoint("b")
    private let refused = SentinelPoll.Vote.failed(RedisError(.notConnected, "connection refused"))

    private static func endpoint(_ name: String) -> RedisEndpoint { .host(name, port: 1) }

    private static func time(_ milliseconds: Int64) -> NIODeadline {
        .uptimeNanoseconds(1_000_000_000) + .milliseconds(milliseconds)
    }

    private func poll() -> SentinelPoll {
        SentinelPoll(sentinels: [self.s1, self.s2, self.s3], name: "mymaster", now: Self.time(0))
    }

    /// Plays a whole round that begins at a time, and returns its outcome.
    private func round(
        _ poll: inout SentinelPoll,
        at milliseconds: Int64,
        _ votes: [(RedisEndpoint, SentinelPoll.Vote)],
    ) -> Result<RedisEndpoint, RedisError>? {
        let (_, round, questions) = poll.hitDeadline(now: Self.time(milliseconds), draw: 0)
        #expect(questions == [self.s1, self.s2, self.s3])
        for (sentinel, vote) in votes {
            let outcome = poll.voted(vote, by: sentinel, in: round, now: Self.time(milliseconds + 1), draw: 0)
            if let outcome {
                #expect(outcome.round == round)
                return outcome.result
            }
        }
        return nil
    }

    private func message(_ result: Result<RedisEndpoint, RedisError>?) -> String {
        guard case .failure(let error)? = result else { return "" }
        return error.message
    }

    // MARK: Decisions

    @Test func `The first round is due at once, and two of three that agree decide it`() {
        var poll = self.poll()
        #expect(poll.master == nil && poll.majority == 2)
        let (outcome, round, questions) = poll.hitDeadline(now: Self.time(0), draw: 0)
        #expect(outcome == nil && round == 1 && questions == [self.s1, self.s2, self.s3])
        #expect(poll.voted(.master(self.a), by: self.s1, in: 1, now: Self.time(1), draw: 0) == nil)
        #expect(poll.master == nil, "one is no majority")
        let decided = poll.voted(.master(self.a), by: self.s3, in: 1, now: Self.time(2), draw: 0)
        #expect(decided?.round == 1 && decided?.result == .success(self.a))
        #expect(poll.master == self.a && poll.error == nil)
        // The third is too late to matter.
        #expect(poll.voted(.master(self.b), by: self.s2, in: 1, now: Self.time(3), draw: 0) == nil)
        #expect(poll.master == self.a)
    }

    @Test func `A Sentinel cut off from the others is outvoted`() {
        var poll = self.poll()
        let result = self.round(
            &poll,
            at: 0,
            [(self.s1, .master(self.a)), (self.s2, .master(self.b)), (self.s3, .master(self.b))]
        )
        #expect(result == .success(self.b))
    }

    @Test func `While one is still alone with the new master the old one stays, and nobody is confirmed`() {
        var poll = self.poll()
        _ = self.round(&poll, at: 0, [(self.s1, .master(self.a)), (self.s2, .master(self.a))])
        let split = self.round(
            &poll,
            at: 1_000,
            [(self.s1, .master(self.a)), (self.s2, .master(self.b)), (self.s3, self.refused)]
        )
        #expect(
            self.message(split)
                == "2 of 3 Sentinels must agree on the master, but 1 names a:1, 1 names b:1, 1 does not answer: start them, "
                + "or name only those there are in the address (s3:1: connection refused)"
        )
        #expect(poll.master == self.a && poll.error?.code == .notConnected)
        let agreed = self.round(&poll, at: 2_000, [(self.s1, .master(self.b)), (self.s2, .master(self.b))])
        #expect(agreed == .success(self.b) && poll.master == self.b && poll.error == nil)
    }

    @Test func `Each reason for no master names its cure`() {
        var poll = self.poll()
        // Two are enough to know that no majority can come.
        let silent = self.round(&poll, at: 0, [(self.s1, self.refused), (self.s2, self.refused)])
        let reason = "no Sentinel answers (s1:1: connection refused; s2:1: connection refused)"
        #expect(self.message(silent).hasPrefix(reason))
        #expect(poll.error?.code == .notConnected)

        poll = self.poll()
        let unknown = self.round(&poll, at: 0, [(self.s1, .unknownName), (self.s2, .unknownName)])
        #expect(self.message(unknown).hasPrefix("no Sentinel has a master named 'mymaster': correct the name"))
        #expect(poll.error?.code == .configuration)

        poll = self.poll()
        let password = RedisError(.noAuthentication, "NOAUTH Authentication required.")
        let closed = self.round(&poll, at: 0, [(self.s1, .failed(password)), (self.s2, .failed(password))])
        #expect(self.message(closed).contains("redis.sentinel_password_file"))
        #expect(poll.error?.isCredentials == true)

        poll = self.poll()
        let alone = self.round(
            &poll,
            at: 0,
            [(self.s1, .master(self.a)), (self.s2, self.refused), (self.s3, self.refused)]
        )
        #expect(self.message(alone).contains("1 names a:1, 2 do not answer: start them"))
        #expect(poll.master == nil)
    }

    @Test func `Sentinels that were reset are no mistake of the configuration`() {
        var poll = self.poll()
        _ = self.round(&poll, at: 0, [(self.s1, .master(self.a)), (self.s2, .master(self.a))])
        _ = self.round(&poll, at: 1_000, [(self.s1, .unknownName), (self.s2, .unknownName)])
        #expect(poll.error?.code == .notConnected && poll.master == self.a)
    }

    // MARK: Times

    @Test func `A Sentinel that does not answer ends the round after a second`() {
        var poll = self.poll()
        _ = poll.hitDeadline(now: Self.time(0), draw: 0)
        _ = poll.voted(.master(self.a), by: self.s1, in: 1, now: Self.time(1), draw: 0)
        #expect(poll.dueAt == Self.time(1_000))
        #expect(poll.hitDeadline(now: Self.time(999), draw: 0).questions.isEmpty)
        let (outcome, round, questions) = poll.hitDeadline(now: Self.time(1_000), draw: 0)
        #expect(outcome?.round == 1)
        let reason = self.message(outcome?.result)
        #expect(reason.contains("s2:1: no answer within 1 s; s3:1: no answer within 1 s"))
        // The next round begins in the same moment.
        #expect(round == 2 && questions.count == 3)
    }

    @Test func `There is a round a second while all is well, and soon after a failure`() {
        var poll = self.poll()
        _ = self.round(&poll, at: 0, [(self.s1, .master(self.a)), (self.s2, .master(self.a))])
        #expect(poll.dueAt == Self.time(500), "half of the pause is random")
        poll.failed(now: Self.time(10), draw: 0)
        #expect(poll.dueAt == Self.time(100))
        _ = self.round(&poll, at: 100, [(self.s1, .master(self.a)), (self.s2, .master(self.a))])
        #expect(poll.dueAt == Self.time(600))
    }

    @Test func `A requested round begins after the request, at most one each 50 ms`() {
        var poll = self.poll()
        _ = self.round(&poll, at: 0, [(self.s1, .master(self.a)), (self.s2, .master(self.a))])
        #expect(poll.request(now: Self.time(10)) == 2)
        #expect(poll.dueAt == Self.time(50))
        #expect(poll.hitDeadline(now: Self.time(50), draw: 0).round == 2)
        // Its votes may have been given before this request: it waits for the next.
        #expect(poll.request(now: Self.time(51)) == 3 && poll.request(now: Self.time(52)) == 3)
        _ = poll.voted(.master(self.a), by: self.s1, in: 2, now: Self.time(53), draw: 0)
        let outcome = poll.voted(.master(self.a), by: self.s2, in: 2, now: Self.time(54), draw: 0)
        #expect(outcome?.round == 2)
        #expect(poll.dueAt == Self.time(100))
        #expect(poll.hitDeadline(now: Self.time(100), draw: 0).round == 3)
    }

    @Test func `A vote of another round or of a stranger does not count`() {
        var poll = self.poll()
        _ = poll.hitDeadline(now: Self.time(0), draw: 0)
        #expect(poll.voted(.master(self.b), by: self.s1, in: 0, now: Self.time(1), draw: 0) == nil)
        #expect(poll.voted(.master(self.b), by: self.b, in: 1, now: Self.time(1), draw: 0) == nil)
        #expect(poll.voted(.master(self.a), by: self.s1, in: 1, now: Self.time(1), draw: 0) == nil)
        #expect(poll.voted(.master(self.a), by: self.s1, in: 1, now: Self.time(1), draw: 0) == nil, "twice is once")
        #expect(poll.voted(.master(self.a), by: self.s2, in: 1, now: Self.time(1), draw: 0) != nil)
    }
}
