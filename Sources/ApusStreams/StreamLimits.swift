/// Limits of the streams, by name. Those that a function enforces stand in its source too, and a test compares them.
public enum StreamLimits {
    /// Commands that wait in one mailbox before `publish` says "later".
    public static let mailboxEntriesMax = 10_000
    /// Units that wait per route and lane of a shard before planning pauses.
    public static let unitsWaitingMax = 64
    /// Units that one step of a plan appends of a send that has a rate of its own, of which two steps wait at most: it plans little ahead,
    /// so that it keeps no other waiting.
    public static let pacedUnitsPerStepMax = 4
    /// Entries of one stream in hand that wait for something of their own, such as their send's rate, and count against no credit.
    public static let waitingInHandMax = 64
    /// Events of apps that wait in one shard before no more are taken.
    public static let eventEntriesMax = 100_000
    /// Receipts of its shard that are looked through for a direct send's, from its publication on.
    public static let statusReceiptsMax = 10_000
    /// Entries of streams that are looked through for what is left of a send. Where more wait, no send is taken for lost. One call looks at
    /// all of them, and a message may have some 50 KB.
    public static let sweepEntriesMax = 2_000
    /// Outcomes among them.
    public static let sweepOutcomesMax = 500
    /// Ids of what waits for its time that are looked through for the same.
    public static let sweepDueMax = 20_000
    /// Sends under way that are read by one call, roughly.
    static let openSendsPerRead = 100
    /// Sets that the ids of a send's client events are spread over, so that each stays small.
    package static let eventIDBuckets = 4_096
    /// Ids in one of them: some 16 million events of a send. What comes beyond is not counted.
    package static let eventIDsPerBucketMax = 4_096
    /// How long counts and ids are kept after the last event: longer than registration takes events of.
    package static let eventMemory = Duration.seconds(8 * 24 * 3_600)
    /// Dead letters kept per shard.
    public static let deadLettersMax = 10_000
    /// Dead letters read, or removed, by one call: each is up to `Limits.deadLetterBytesMax`.
    public static let deadLettersPerReadMax = 50
    /// Receipts kept in a publisher's own stream, roughly; a publisher that never reads cannot fill Redis.
    public static let replyEntriesMax = 100_000
    /// Units that one step of a plan may append.
    public static let unitsPerStepMax = 16
    /// Due messages moved by one call.
    public static let dueBatchMax = 100
    /// Held entries of a send that are moved back by one call.
    public static let releaseBatchMax = 100
    /// Messages that one call looks through for those of a send, roughly, of all that wait for their time.
    public static let duePageMax = 1_000
    /// Entries of one stream taken over by one call.
    public static let claimBatchMax = 10
    /// How long ago an entry was delivered that is read again because the answer to its read was lost, at least.
    static let rereadIdleMilliseconds: Int64 = 500
    /// How often what is this consumer's is looked at after a read that failed: a server that was frozen carries out later what came from
    /// connections that are gone.
    static let rereadsMax = 2
    /// Entries of all streams taken over by one call.
    public static let claimEntriesMax = 64
    /// Bytes of one stream's entries in hand from which no more of it are read. One read may go beyond it.
    public static let inHandBytesMax = 4 * 1_024 * 1_024
    /// Entries named in one call that renews, hands back or reclaims.
    public static let renewEntriesMax = 500
    /// Batches of outcomes that one call acknowledges.
    package static let acknowledgedTogetherMax = 64
    /// Deliveries without progress up to which an entry is begun beside any others; at the next one it gets a turn of its own.
    public static let deliveriesTogetherMax: UInt32 = 2
    /// How long what is in hand may take to end before the turn of a poison entry.
    public static let poisonEmptyingMax = Duration.milliseconds(200)
    /// How long the turn of a poison entry lasts, in which only first deliveries begin beside it; after that without progress it only is slow.
    public static let poisonTurnMax = Duration.milliseconds(500)
    /// How long what is in hand may take before a poison entry that becomes a dead letter with the next end of its process: that end should be
    /// its own doing.
    public static let poisonLastEmptyingMax = Duration.seconds(2)
    /// How long the turn of such a poison entry lasts.
    public static let poisonLastTurnMax = Duration.seconds(3)
    /// How long poison entries may follow one another before entries that came back get their time; they get it at once when one of them waits.
    public static let poisonShutMax = Duration.milliseconds(500)
    /// How long entries that came back begin freely before the next poison entry.
    public static let poisonRest = Duration.milliseconds(500)
    /// The same after a poison entry that made no progress: if it is it that ends the process after all, it should not be excused by then.
    public static let poisonSlowRest = Duration.seconds(5)
    /// How far a dispatcher's clock may be from Redis' without a send going out before its time.
    public static let clockSkewMaxMilliseconds: Int64 = 60_000
    /// How long a stream that has room for entries may go without an answered read. A blocking read ends after two seconds at most, so beyond it
    /// something is wrong: the process is not ready, and connects anew.
    public static let readSilenceMax = Duration.seconds(10)
    /// Consumers that asked for nothing for longer than this are swept, if they own nothing.
    public static let consumerSilenceMax = Duration.seconds(24 * 3_600)
    /// Bytes of calls that a process keeps, of all shards, to repeat them after a failover. What is beyond is sent again instead.
    public static let replayBytesMax = 32 * 1_024 * 1_024
    /// What keeping one such call costs besides its bytes, roughly.
    public static let replayCallOverheadBytes = 160
    /// How long such a call is kept: longer than a replica lags that anybody would make a master.
    public static let replayAge = Duration.seconds(60)
    /// How long nothing is read from another server than before, so that other processes, too, replay first: longer than any of them
    /// waits before it connects again.
    public static let replayReadingPause = Duration.seconds(3)
    /// How long a replica may take to confirm what must survive the death of the primary.
    public static let replicaPatience = Duration.seconds(1)
    /// Deliveries without progress after which an entry becomes a dead letter.
    public static let deliveriesMax: UInt32 = 5
    /// Streams that one blocking read may wait for.
    public static let streamsPerReadMax = 64
    /// Tokens of one route in quarantine. A token beyond them is not quarantined: it is sent to, and judged, again.
    public static let quarantinedTokensMax = 1_000_000
    /// Tokens that one call returns or removes.
    public static let quarantinedTokensPerCallMax = 500
    /// Broadcast channels of a route of which it is known that they are there: a provider allows an app as many in each environment. Of what comes
    /// beyond nothing is known, and the publisher's word counts.
    public static let channelsMax = 10_000
    /// Broadcast channels of a route of which it is known that they are gone; the first are forgotten.
    public static let channelsGoneMax = 10_000
    /// How long it counts that a channel is gone, in milliseconds: a day. Then the next send asks the provider again.
    public static let channelGoneMemoryMilliseconds: Int64 = 24 * 3_600_000
    /// Channels that one call forgets.
    static let channelsPerCallMax = 500
    /// Event loops that may share a rate limit; the next one gets nothing until one leaves.
    public static let rateLimitMembersMax = 256
    /// What a rate limit gives out at most beyond its rate, in seconds' worth: its bucket, and the permits in hand.
    public static let rateLimitBurstSeconds = 0.05
}
