internal import ApusCore
package import ApusStreams

extension SendStatus {
    /// The exit code that tells it: 0 all went well, 1 it was not taken, 2 some were not reached.
    package var exitCode: Int32 {
        switch self.phase {
        case .refused: CommandExit.failed
        case .cancelled: CommandExit.partlyFailed
        case .done:
            self.unsuccessful + self.total(.cancelled) == 0 && self.problem == nil ? 0 : CommandExit.partlyFailed
        case .waiting, .planning, .running, .paused: CommandExit.failed
        }
    }
}
