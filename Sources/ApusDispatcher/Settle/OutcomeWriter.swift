internal import ApusRedis
internal import Logging

/// Repeats the writing of what was sent until Redis has it: what is thrown away would be sent again.
struct OutcomeWriter: Sendable {
    let logger: Logger

    /// The maximum of repetitions of a write that Redis refuses for a reason of its own, rather than because it is overloaded or away.
    static let refusalsMax = 20
    /// The longest wait between two writes.
    static let waitMax: Duration = .seconds(2)

    /// Returns the wait before a failed write is repeated; nil when it is given up.
    ///
    /// - Parameters:
    ///   - failures: of this write so far, this one included.
    ///   - refusals: of those, how many were no outage.
    ///   - refusalsMax: the maximum of those after which it is repeated.
    static func wait(
        after disposition: Disposition,
        failures: Int,
        refusals: Int,
        refusalsMax: Int = Self.refusalsMax,
    ) -> Duration? {
        let wait = min(Self.waitMax, .milliseconds(50 << min(failures - 1, 6)))
        switch disposition {
        case .retryNow, .retryLater: return wait
        case .giveBack: return refusals <= refusalsMax ? wait : nil
        case .bury, .stop: return nil
        }
    }

    /// Performs a write that may be repeated, as often as it takes.
    ///
    /// - Parameter refusalsMax: the maximum of repetitions of a write that Redis refuses.
    /// - Throws: the last error, when it can never be written.
    func write<Result>(
        refusalsMax: Int = Self.refusalsMax,
        _ body: () async throws -> Result,
    ) async throws -> Result {
        var failures = 0
        var refusals = 0
        while true {
            do {
                return try await body()
            } catch {
                failures += 1
                let disposition = Disposition(of: error)
                if !disposition.isOutage { refusals += 1 }
                guard
                    let wait = Self.wait(
                        after: disposition,
                        failures: failures,
                        refusals: refusals,
                        refusalsMax: refusalsMax,
                    )
                else {
                    throw error
                }
                self.logger.warning(
                    "progress not written, will repeat",
                    metadata: ["error": "\(error)", "failures": "\(failures)"]
                )
                try await Task.sleep(for: wait)
            }
        }
    }
}
