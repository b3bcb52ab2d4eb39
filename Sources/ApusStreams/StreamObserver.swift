package import ApusMessages
package import ApusRedis

/// Receives what a consumer of streams counts.
package protocol StreamObserver: Sendable {
    /// Reports that new entries were read.
    func entriesRead(_ count: Int, stream: String)
    /// Reports that an entry was taken over from a silent owner.
    func entryClaimed(stream: String)
    /// Reports that entries have ended: they are acknowledged and removed from the stream.
    func entriesAcknowledged(_ count: Int, stream: String)
    /// Reports that an entry of that stream became a dead letter.
    func deadLetterWritten(_ cause: DeadLetter.Cause, stream: String)
    /// Reports that entries vanished before they were acknowledged: their work is lost.
    func entriesVanished(_ count: Int, stream: String)
    /// Reports that a stream or its group vanished and was created again from `0`.
    func groupLost()
    /// Reports how many streams of a shard have room for entries and were not read for ``StreamLimits/readSilenceMax``; 0 when all are
    /// read.
    func readsUnanswered(_ streams: Int, shard: HashTag)
    /// Reports that another server answers, and how many calls were repeated there.
    func callsReplayed(_ count: Int)
    /// Reports how many calls could not be kept for as long as a replay may need them.
    func replayCallsDropped(_ count: Int)
}
