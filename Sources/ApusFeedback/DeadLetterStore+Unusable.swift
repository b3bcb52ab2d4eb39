internal import ApusCore
internal import ApusMessages
internal import ApusRedis
internal import ApusStreams
internal import Logging

extension DeadLetter {
    /// Creates the dead letter of an entry that feedback cannot use.
    init(unusable entry: StreamEntry, _ problem: Problem, at time: UnixMilliseconds) {
        self.init(
            stream: entry.stream,
            entry: entry.id,
            cause: problem.code == "poison" ? .poison : .malformed,
            problem: problem,
            payload: Array(entry.message.prefix(Limits.deadLetterPayloadBytesMax)),
            at: time,
        )
        self.deliveries = entry.deliveries
        self.service = "feedback"
    }
}

extension DeadLetterStore {
    /// Makes a dead letter of an entry that feedback cannot use, and logs that.
    ///
    /// - Parameter name: what the entry is, for the log.
    func write(
        unusable entry: StreamEntry,
        _ name: String,
        _ problem: Problem,
        by consumer: StreamConsumer,
        tag: HashTag,
        at time: UnixMilliseconds,
        _ logger: Logger,
    ) async throws {
        logger.error(
            "\(name) became a dead letter",
            metadata: ["entry": "\(entry.origin)", "problem": "\(problem)"]
        )
        let letter = DeadLetter(unusable: entry, problem, at: time)
        _ = try await self.write(entry, by: consumer, tag: tag, letter: letter, receipt: nil)
    }
}
