internal import ApusMessages
internal import ApusRedis
internal import ApusStreams
internal import Logging

/// Repeats the writing of what was sent until Redis has it: what is thrown away would be sent again.
struct OutcomeWriter: Sendable {
    let logger: Logger

    /// The decision after a failed write.
    enum Disposition: Equatable, Sendable {
        /// Write the same again after that wait.
        case again(after: Duration)
        /// It can never be written.
        case giveUp
    }

    /// The maximum of repetitions of a write that Redis refuses for a reason of its own, rather than because it is overloaded or away.
    static let refusalsMax = 20
    /// The longest wait between two writes.
    static let waitMax: Duration = .seconds(2)

    /// Decides what follows a failed write.
    ///
    /// - Parameters:
    ///   - failures: of this write so far, this one included.
    ///   - refusals: of those, how many were no outage.
    static func disposition(of error: any Error, failures: Int, refusals: Int) -> Disposition {
        let wait = min(Self.waitMax, .milliseconds(50 << min(failures - 1, 6)))
        switch error {
        // The message is beyond what can be written, or the send's id is another's by now.
        case is CancellationError, is MessageError, is StreamError: return .giveUp
        case let failure as any RedisFailure where failure.redis?.isOutage ?? false: return .again(after: wait)
        default: return refusals <= Self.refusalsMax ? .again(after: wait) : .giveUp
        }
    }

    /// Performs a write that may be repeated, as often as it takes.
    ///
    /// - Throws: the last error, when it can never be written.
    func write<Result>(_ body: () async throws -> Result) async throws -> Result {
        var failures = 0
        var refusals = 0
        while true {
            do {
                return try await body()
            } catch {
                failures += 1
                if !((error as? any RedisFailure)?.redis?.isOutage ?? false) { refusals += 1 }
                guard
                    case .again(let wait) = Self.disposition(of: error, failures: failures, refusals: refusals)
                else { throw error }
                self.logger.warning(
                    "progress not written, will repeat",
                    metadata: ["error": "\(error)", "failures": "\(failures)"]
                )
                try await Task.sleep(for: wait)
            }
        }
    }
}
