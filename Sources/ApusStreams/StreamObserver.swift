package import ApusMessages
package import ApusRedis

/// What a consumer of streams tells whoever counts.
package protocol StreamObserver: Sendable {
    /// New entries were read.
    func entriesRead(_ count: Int, stream: String)
    /// An entry was taken over from an owner that had fallen silent.
    func entryClaimed(stream: String)
    /// Entries came to their end: they are acknowledged and gone from the stream.
    func entriesAcknowledged(_ count: Int, stream: String)
    /// An entry of that stream was put aside as a dead letter.
    func deadLetterWritten(_ cause: DeadLetter.Cause, stream: String)
    /// Entries vanished before they were acknowledged: their work is lost.
    func entriesVanished(_ count: Int, stream: String)
    /// A stream or its group vanished and was made again from `0`.
    func groupLost()
    /// So many streams of a shard have room for entries and were not read for ``StreamLimits/readSilenceMax``; 0: all are read again.
    func readsUnanswered(_ streams: Int, shard: HashTag)
    /// Another server answered than before: so many calls were repeated.
    func callsReplayed(_ count: Int)
    /// So many calls could not be kept for as long as a replay may need them.
    func replayCallsDropped(_ count: Int)
}
