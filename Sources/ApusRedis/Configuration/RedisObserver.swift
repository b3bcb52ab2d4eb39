internal import NIOCore

/// Receives the results of commands and the state of connections, for metrics. Called on event loops: implementations
/// must be quick and never wait.
public protocol RedisObserver: Sendable {
    /// Called when a command that was sent has ended.
    ///
    /// - Parameters:
    ///   - name: the command's first word in lower case: `fcall`, `xadd`.
    ///   - ending: the result.
    ///   - nanoseconds: the time from sending to the end; nil for a read that may block, whose time says nothing about Redis.
    func commandEnded(_ name: String, _ ending: RedisCommandEnding, nanoseconds: Int64?)

    /// Called when a connection was made, is logged in, and answers. With Sentinels only those count that they have confirmed.
    ///
    /// - Parameter isAgain: true when it replaces a connection that was lost.
    func connectionMade(isAgain: Bool)

    /// Called when such a connection is gone: lost, or closed by its owner.
    func connectionEnded()
}

/// The results of a command that was sent.
public enum RedisCommandEnding: Sendable, Hashable {
    /// The server answered.
    case answered
    /// The server answered with an error.
    case refused
    /// The reply did not arrive in time.
    case timedOut
    /// The connection ended before the reply.
    case disconnected
}

extension RedisCommandEnding {
    /// Returns the result of a command whose connection ended for the given reason.
    init(closedBecause error: RedisError) { self = error.code == .timedOut ? .timedOut : .disconnected }
}
