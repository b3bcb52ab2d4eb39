internal import NIOCore

/// Who is told what becomes of commands and connections, for metrics. Called on event loops: it must be quick and never wait.
public protocol RedisObserver: Sendable {
    /// A command that was sent has ended.
    ///
    /// - Parameters:
    ///   - name: the first word in small letters: `fcall`, `xadd`.
    ///   - ending: how.
    ///   - nanoseconds: from sending to the end; nil for a read that may block, whose time says nothing about Redis.
    func commandEnded(_ name: String, _ ending: RedisCommandEnding, nanoseconds: Int64?)

    /// A connection was made, logged in, and answers.
    ///
    /// - Parameter isAgain: there was one before, which was lost.
    func connectionMade(isAgain: Bool)

    /// A connection that was made is gone: lost, or closed by its owner.
    func connectionEnded()
}

/// How a command that was sent has ended.
public enum RedisCommandEnding: Sendable, Hashable {
    /// Answered.
    case answered
    /// Answered with an error.
    case refused
    /// Not answered in time.
    case timedOut
    /// The connection ended first.
    case disconnected
}

extension RedisCommandEnding {
    /// The end of a command whose connection ended for that reason.
    init(closedBecause error: RedisError) { self = error.code == .timedOut ? .timedOut : .disconnected }
}
