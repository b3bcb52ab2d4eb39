package import NIOCore

/// Tracks the commands of one connection that await replies, in order, and their deadlines.
///
/// Pure: it never reads a clock and never touches a socket. Redis answers by position, so a command that is not
/// answered in time ends the connection, and with it all commands behind it.
package struct RedisPipeline<Context>: ~Copyable {
    /// The limits of one connection.
    package struct Limits: Sendable, Hashable {
        /// The maximum number of commands that await their reply.
        package var pendingMax: Int
        /// The maximum bytes that the socket has not accepted.
        package var outboundBytesMax: Int
        /// The time of silence after which an idle connection is checked with `PING`.
        package var keepAlive: TimeAmount
        /// The time limit of a `PING`.
        package var pingTimeout: TimeAmount

        /// Creates limits.
        package init(pendingMax: Int, outboundBytesMax: Int, keepAlive: TimeAmount, pingTimeout: TimeAmount) {
            precondition(pendingMax > 0 && outboundBytesMax > 0 && keepAlive > .zero && pingTimeout > .zero)
            self.pendingMax = pendingMax
            self.outboundBytesMax = outboundBytesMax
            self.keepAlive = keepAlive
            self.pingTimeout = pingTimeout
        }
    }

    private struct Pending {
        /// The command's context; nil for our own `PING`.
        var context: Context?
        var deadline: NIODeadline
    }

    private enum State {
        /// Commands may be sent. Can become `closed`.
        case open
        /// The connection is closed for good.
        case closed
    }

    /// The actions for a submitted command.
    package enum SubmitAction {
        /// Send the command.
        case write
        /// Return the error to the caller.
        case refuse(RedisError)
    }

    /// The actions for a reply.
    package enum ReplyAction {
        /// The reply answers this command.
        case complete(Context)
        /// The reply answers our own `PING`.
        case drop
        /// The reply answers no command: close the connection.
        case violation(RedisError)
    }

    /// The actions for a deadline.
    package enum DeadlineAction {
        /// Wait until the given time.
        case wait(until: NIODeadline)
        /// Send a `PING`, then wait until the given time.
        case ping(until: NIODeadline)
        /// The reply did not arrive in time: close the connection.
        case close(RedisError)
        /// The connection is closed already.
        case stop
    }

    private let limits: Limits
    private var state: State = .open
    private var pending: CircularBuffer<Pending> = []
    private var outboundBytes = 0
    private var receivedAt: NIODeadline
    /// The time for which a call of `hitDeadline` is scheduled.
    private var wakeAt: NIODeadline

    /// Creates the pipeline of a connection that was made at `now`.
    package init(limits: Limits, now: NIODeadline) {
        self.limits = limits
        self.receivedAt = now
        self.wakeAt = now + limits.keepAlive
    }

    /// The number of commands that await their replies.
    package var pendingCount: Int { self.pending.count }

    /// The time at which `hitDeadline` must be called.
    package var nextDeadline: NIODeadline { self.wakeAt }

    /// Adds a command of the given size. `nextDeadline` may be earlier afterwards.
    package mutating func submit(_ context: Context, byteCount: Int, deadline: NIODeadline) -> SubmitAction {
        guard self.state == .open else {
            return .refuse(RedisError(.notConnected, "the connection is closed"))
        }
        guard byteCount <= RedisLimits.commandBytesMax else {
            return .refuse(RedisError(.tooLarge, "a command of more than \(RedisLimits.commandBytesMax) bytes"))
        }
        guard self.pending.count < self.limits.pendingMax else {
            return .refuse(RedisError(.full, "\(self.limits.pendingMax) commands wait for their answers"))
        }
        guard self.outboundBytes + byteCount <= self.limits.outboundBytesMax else {
            return .refuse(RedisError(.full, "\(self.limits.outboundBytesMax) bytes wait for the socket"))
        }
        self.outboundBytes += byteCount
        self.pending.append(Pending(context: context, deadline: deadline))
        self.wakeAt = min(self.wakeAt, deadline)
        return .write
    }

    /// Records that the socket has accepted what was submitted.
    package mutating func drained() { self.outboundBytes = 0 }

    /// Records that bytes arrived from the socket.
    package mutating func bytesReceived(now: NIODeadline) { self.receivedAt = now }

    /// Matches a complete reply with its command.
    package mutating func replyReceived() -> ReplyAction {
        guard self.state == .open, let first = self.pending.popFirst() else {
            return .violation(RedisError(.protocolViolation, "a reply without a command"))
        }
        guard let context = first.context else { return .drop }
        return .complete(context)
    }

    /// Handles the passing of `nextDeadline`.
    package mutating func hitDeadline(now: NIODeadline) -> DeadlineAction {
        guard self.state == .open else { return .stop }
        guard let earliest = self.pending.lazy.map(\.deadline).min() else {
            let silentAt = self.receivedAt + self.limits.keepAlive
            guard silentAt <= now else {
                self.wakeAt = silentAt
                return .wait(until: silentAt)
            }
            self.wakeAt = now + self.limits.pingTimeout
            self.outboundBytes += RedisPipelinePing.command.encoded.readableBytes
            self.pending.append(Pending(context: nil, deadline: self.wakeAt))
            return .ping(until: self.wakeAt)
        }
        guard earliest > now else {
            return .close(RedisError(.timedOut, "the server did not answer in time"))
        }
        self.wakeAt = earliest
        return .wait(until: earliest)
    }

    /// Handles the end of the connection and returns the commands to fail, which only the first call does.
    package mutating func closed() -> [Context] {
        self.state = .closed
        defer { self.pending.removeAll() }
        return self.pending.compactMap(\.context)
    }
}

/// Holds the command, because generic types cannot have stored static properties.
enum RedisPipelinePing {
    static let command = RedisCommand("PING")
}
