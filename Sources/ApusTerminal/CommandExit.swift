internal import ApusCore
package import ApusStreams
package import ArgumentParser

/// Reports a command's failure in one sentence that also names the remedy.
package struct CommandFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The sentence.
    package let description: String

    /// Creates a failure.
    package init(_ sentence: String) { self.description = sentence }
}

/// The exit codes of failed commands.
package enum CommandExit {
    /// The command failed.
    package static let failed: Int32 = 1
    /// A part of the command failed.
    package static let partlyFailed: Int32 = 2

    /// Ends a command that did several things: as failed when all of them failed, as partly failed when some did.
    ///
    /// - Throws: `ExitCode` when `failed` is not 0.
    package static func check(failed: Int, of all: Int) throws(ExitCode) {
        guard failed > 0 else { return }
        throw ExitCode(failed == all ? Self.failed : Self.partlyFailed)
    }
}

extension SendStatus {
    /// The exit code of the state: 0 when it is done, 1 when the send was refused or is not complete, 2 when nobody was reached, or some were
    /// not for a reason other than that they are gone or do not match any more.
    package var exitCode: Int32 {
        switch self.phase {
        case .refused: CommandExit.failed
        case .cancelled: CommandExit.partlyFailed
        case .done:
            self.unsuccessful + self.total(.cancelled) == 0 && self.problem == nil && self.total(.accepted) > 0
                ? 0 : CommandExit.partlyFailed
        case .waiting, .scheduled, .planning, .running, .paused: CommandExit.failed
        }
    }
}
