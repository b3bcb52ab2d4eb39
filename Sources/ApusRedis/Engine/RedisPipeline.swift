package import NIOCore

/// What one connection owes: the commands whose answers are awaited, in order, and when to lose patience.
///
/// Pure: it never reads a clock and never touches a socket. Redis answers by position, so a command that is not answered
/// in time ends the connection, and with it everything behind it.
package struct RedisPipeline<Context>: ~Copyable {
    /// The bounds of one connection.
    package struct Limits: Sendable, Hashable {
        /// Commands that wait for their answer.
        package var pendingMax: Int
        /// Bytes that the socket has not taken.
        package var outboundBytesMax: Int
        /// Silence after which an idle connection is asked whether it lives.
        package var keepAlive: TimeAmount
        /// How long a `PING` may take.
        package var pingTimeout: TimeAmount

        /// Bounds.
        package init(pendingMax: Int, outboundBytesMax: Int, keepAlive: TimeAmount, pingTimeout: TimeAmount) {
            precondition(pendingMax > 0 && outboundBytesMax > 0 && keepAlive > .zero && pingTimeout > .zero)
            self.pendingMax = pendingMax
            self.outboundBytesMax = outboundBytesMax
            self.keepAlive = keepAlive
            self.pingTimeout = pingTimeout
        }
    }

    private struct Pending {
        /// Nil: our own `PING`.
        var context: Context?
        var deadline: NIODeadline
    }

    private enum State {
        /// Commands may be sent. Can become `closed`.
        case open
        /// Nothing more happens.
        case closed
    }

    /// What to do with a command.
    package enum SubmitAction {
        /// Send it, keep nothing.
        case write
        /// Tell the caller.
        case refuse(RedisError)
    }

    /// What to do with a reply.
    package enum ReplyAction {
        /// It answers this command.
        case complete(Context)
        /// It answers our own `PING`.
        case drop
        /// Nobody asked: close.
        case violation(RedisError)
    }

    /// What to do when time has passed.
    package enum DeadlineAction {
        /// Come back then.
        case wait(until: NIODeadline)
        /// Send a `PING`, come back then.
        case ping(until: NIODeadline)
        /// No answer in time: close.
        case close(RedisError)
        /// It is closed already.
        case stop
    }

    private let limits: Limits
    private var state: State = .open
    private var pending: CircularBuffer<Pending> = []
    private var outboundBytes = 0
    private var heardAt: NIODeadline
    /// When `hitDeadline` was promised to be called.
    private var wakeAt: NIODeadline

    /// A connection that was made at `now`.
    package init(limits: Limits, now: NIODeadline) {
        self.limits = limits
        self.heardAt = now
        self.wakeAt = now + limits.keepAlive
    }

    /// Commands whose answers are awaited.
    package var pendingCount: Int { self.pending.count }

    /// When `hitDeadline` is to be called.
    package var nextDeadline: NIODeadline { self.wakeAt }

    /// A caller brings a command of that many bytes. After it `nextDeadline` may be earlier.
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

    /// The socket took that many bytes.
    package mutating func written(byteCount: Int) {
        self.outboundBytes -= byteCount
        assert(self.outboundBytes >= 0)
    }

    /// Something was read from the socket.
    package mutating func heard(now: NIODeadline) { self.heardAt = now }

    /// A complete reply was read.
    package mutating func replyReceived() -> ReplyAction {
        guard self.state == .open, let first = self.pending.popFirst() else {
            return .violation(RedisError(.protocolViolation, "a reply that nobody asked for"))
        }
        guard let context = first.context else { return .drop }
        return .complete(context)
    }

    /// `nextDeadline` has come.
    package mutating func hitDeadline(now: NIODeadline) -> DeadlineAction {
        guard self.state == .open else { return .stop }
        guard let earliest = self.pending.lazy.map(\.deadline).min() else {
            let silentAt = self.heardAt + self.limits.keepAlive
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
            return .close(RedisError(.timedOut, "no answer in time"))
        }
        self.wakeAt = earliest
        return .wait(until: earliest)
    }

    /// The connection is gone: whom to tell. Once; then there is nobody left.
    package mutating func closed() -> [Context] {
        self.state = .closed
        defer { self.pending.removeAll() }
        return self.pending.compactMap(\.context)
    }
}

/// Statics are not allowed in generic types.
enum RedisPipelinePing {
    static let command = RedisCommand("PING")
}
