internal import ApusCore
internal import ApusMessages
internal import ApusStreams

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
