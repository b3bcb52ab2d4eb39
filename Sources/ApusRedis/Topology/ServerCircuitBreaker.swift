package import NIOCore

/// Decides for each server of a cluster whether commands wait for it: a circuit breaker. Pure: time is an argument.
///
/// A server to which every connection has failed for ``openAfter`` is *open*: commands for it fail at once, so that they keep
/// nothing waiting that needs other servers. One of them in every ``probePause`` is let through, as a probe. The first connection closes
/// it, and so does a time without any attempt, because it says nothing about the server.
package struct ServerCircuitBreaker: Sendable {
    /// The time for which connections must have failed: until then it may be a failover, which commands wait for.
    package static let openAfter: TimeAmount = .seconds(5)
    /// The pause between two probes of an open server.
    package static let probePause: TimeAmount = .milliseconds(500)
    /// The time after the last failure from which a server counts as not tried. It is longer than an attempt takes.
    package static let memory: TimeAmount = .seconds(10)

    private struct Failure {
        var since: NIODeadline
        var last: NIODeadline
        var probedAt: NIODeadline?
    }

    private var failures: [RedisEndpoint: Failure] = [:]

    /// Creates a breaker that knows of no failure.
    package init() {}

    /// True when a server has failed that has not been reached since.
    package var hasFailures: Bool { !self.failures.isEmpty }

    /// Returns true when commands for a server are not to wait for it.
    package func isOpen(_ server: RedisEndpoint, now: NIODeadline) -> Bool {
        guard let failure = self.failures[server], now - failure.last < Self.memory else { return false }
        return now - failure.since >= Self.openAfter
    }

    /// Returns true when a command for a server may be tried: always while it is closed; one in a while, as a probe, when it is open.
    package mutating func admits(_ server: RedisEndpoint, now: NIODeadline) -> Bool {
        guard self.isOpen(server, now: now) else { return true }
        if let probedAt = self.failures[server]?.probedAt, now - probedAt < Self.probePause { return false }
        self.failures[server]?.probedAt = now
        return true
    }

    /// Records that no connection to a server could be made.
    package mutating func failed(_ server: RedisEndpoint, now: NIODeadline) {
        self.failures = self.failures.filter { now - $0.value.last < Self.memory }
        self.failures[server, default: Failure(since: now, last: now)].last = now
    }

    /// Records that a server can be reached.
    package mutating func reached(_ server: RedisEndpoint) { self.failures[server] = nil }
}
