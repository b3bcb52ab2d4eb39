/// Names the limits of the streams. Those that a function enforces stand in its source too, and a test compares them.
public enum StreamLimits {
    /// The maximum of commands that wait in one mailbox; beyond it a publisher is asked to come back later.
    public static let mailboxEntriesMax = 10_000
    /// The maximum of units that wait per route and lane of a shard, of sends without rates of their own; beyond it their planning pauses.
    public static let unitsWaitingMax = 64
    /// The maximum of units that wait beside them, of sends with rates of their own. A send with waiting units leaves half of it to others.
    public static let pacedUnitsWaitingMax = 128
    /// The maximum of units that wait per route and lane of a shard beyond which no send with a rate of its own is planned. Sends that are slowed
    /// while they run have more units than those that began slowly.
    public static let unitsMax = 256
    /// The maximum of units that one step of a plan appends for a send with a rate of its own, of which two steps may wait. Such a send is
    /// planned little ahead, so that it delays no other.
    public static let pacedUnitsPerStepMax = 4
    /// The maximum of entries of one stream in hand that wait for something of their own, such as their send's rate, and use no credit. Their
    /// bytes count like those of all in hand, see ``inHandBytesMax``.
    public static let waitingInHandMax = 64
    /// The same of a stream of units, so that those of slow sends keep no other from being read: as many as there are, and those that some
    /// sends have left which were slowed while they ran. Those of more such sends, which no dispatcher has begun, take the room of sends
    /// without rates. Each may have 500 recipients.
    public static let waitingUnitsInHandMax = 2 * unitsMax
    /// The batches of outcomes that may wait for feedback in one shard until dispatchers read nothing more of its bulk streams. What is in
    /// hand then still adds its own. They read again when a quarter has been handled.
    public static let outcomesWaitingMax = 50_000
    /// The same for express streams: somebody waits for those, so they are the last to stop.
    public static let outcomesWaitingForExpressMax = 2 * outcomesWaitingMax
    /// The time between two looks at how many batches wait.
    package static let outcomesLookPause = Duration.seconds(1)
    /// The maximum bytes of a message that is taken over or read again: more than the largest has, so that what is cut off can not be taken
    /// for a whole one, and few enough for all that one call takes.
    public static let entryBytesMax = 512 * 1_024
    /// The maximum of client events that wait in one shard; beyond it no more are taken.
    public static let eventEntriesMax = 100_000
    /// The maximum of receipts of a shard that are searched for a direct send's, from its publication on.
    public static let statusReceiptsMax = 10_000
    /// The maximum of the newest receipts of a shard that are searched for it when its publication is not known: it may never have been.
    public static let statusNewestReceiptsMax = 1_000
    /// The number of receipts that are read at once for that.
    static let statusReceiptsPerRead = 100
    /// The bytes of receipts after which no more are read for that: of one request, beside the last read.
    public static let statusReceiptBytesMax = 4 * 1_024 * 1_024
    /// The number of batches that wait for feedback in a shard from which on they are not searched for a direct send's, which may be among them.
    /// Each may have 256 KiB, and one request reads all of them.
    static let statusOutcomesMax = 16
    /// The maximum of the newest receipts of a shard that are searched for those of an app's direct sends.
    package static let receiptsPerShardMax = 20
    /// The maximum of stream entries that are searched for what is left of a send. Where more wait, no send is considered lost. One call
    /// reads all of them, and a message may have some 50 KB.
    public static let sweepEntriesMax = 2_000
    /// The maximum of outcomes among those entries.
    public static let sweepOutcomesMax = 500
    /// The maximum of ids in the schedule that are searched for the same.
    public static let sweepDueMax = 20_000
    /// The approximate number of open sends that one call reads.
    static let openSendsPerRead = 100
    /// The number of sets that the ids of a send's client events are spread over, so that each stays small.
    package static let eventIDBuckets = 4_096
    /// The maximum of ids in one of these sets, which makes some 16 million events of a send. Further events are not counted. For each of
    /// them the set has a second element, by which the ids of its device are counted.
    package static let eventIDsPerBucketMax = 4_096
    /// The maximum of ids that one device reports for a send, up to 100: each kind of event once, and some actions. Further events are not
    /// counted, so that a device which invents ids counts as little more than one.
    package static let eventIDsPerDeviceMax = 16
    /// The time without a dispatcher that has a route after which the route is shown as not configured. Dispatchers report theirs every 30 s.
    package static let routeAbsenceMilliseconds: Int64 = 90_000
    /// The time after which a route that no dispatcher has counts as removed on purpose, and is no concern any more.
    package static let removedRouteMilliseconds: Int64 = 24 * 3_600_000
    /// The time that counts and ids are kept after the last event, longer than registration accepts events of a send.
    package static let eventMemory = Duration.seconds(8 * 24 * 3_600)
    /// The maximum of sends of an app that the list of a shard keeps; the oldest are removed first.
    public static let sendsListedMax = 5_000
    /// The time that a send stays in that list, if its ledger is kept for so long.
    public static let sendsListedMilliseconds = 30 * 24 * 3_600_000
    /// The maximum of ledgers of a shard that one look at that list reads, however few of them are wanted.
    public static let sendsReadMax = 500
    /// The maximum of sends in one page of that list.
    public static let sendsPerPageMax = 200
    /// The maximum bytes of a command that is kept with the ledger after its send has ended.
    public static let commandKeptBytesMax = 8_192
    /// The maximum of entries of the audit trail; the oldest are removed first.
    public static let auditEntriesMax = 50_000
    /// The maximum of entries of the trail of one app's keys and sends; the oldest are removed first.
    public static let keyAuditEntriesMax = 10_000
    /// The time that an entry of the audit trail is kept.
    public static let auditKeptMilliseconds = 365 * 24 * 3_600_000
    /// The maximum bytes of each text of an entry of the audit trail.
    public static let auditTextBytesMax = 500
    /// The maximum of dead letters that are kept per shard.
    public static let deadLettersMax = 10_000
    /// The maximum of bytes, as Redis counts its memory, that the dead letters of a shard take; the oldest are removed first.
    public static let deadLettersBytesMax = 16 * 1_024 * 1_024
    /// The time that a dead letter is kept; the next one removes it.
    public static let deadLettersKeptMilliseconds = 30 * 24 * 3_600_000
    /// The maximum of dead letters that one call reads or removes; each is up to `Limits.deadLetterBytesMax`.
    public static let deadLettersPerReadMax = 50
    /// The approximate number of receipts in a publisher's own stream, so that a publisher that never reads cannot fill Redis.
    public static let replyEntriesMax = 100_000
    /// The maximum of units that one step of a plan appends.
    public static let unitsPerStepMax = 16
    /// The maximum of due messages that one call moves.
    public static let dueBatchMax = 100
    /// The maximum of held entries of a send that one call moves back.
    public static let releaseBatchMax = 100
    /// The approximate number of scheduled messages that one call searches for those of a send.
    public static let duePageMax = 1_000
    /// The maximum of entries of one stream that one call takes over.
    public static let claimBatchMax = 10
    /// The maximum of pending entries before one that are looked at to find some of other consumers: of its own consumer there is the one that
    /// it has given up last.
    static let earlierEntriesMax = 10
    /// The minimum time since the delivery of an entry that is read again because the answer to its read was lost.
    static let rereadIdleMilliseconds: Int64 = 500
    /// The number of looks for this consumer's entries after a read that failed: a server that was frozen carries out later what came from
    /// connections that are gone.
    static let rereadsMax = 2
    /// The maximum number of entries that one call takes over, of all streams.
    public static let claimEntriesMax = 64
    /// The bytes of one stream's entries in hand at which no more of it are read. One read may exceed it.
    public static let inHandBytesMax = 4 * 1_024 * 1_024
    /// The maximum of entries named in one call that renews, hands back or reclaims.
    public static let renewEntriesMax = 500
    /// The maximum number of batches of outcomes that one call acknowledges.
    package static let acknowledgedTogetherMax = 64
    /// The maximum number of direct sends that one call ends.
    package static let finishedTogetherMax = 64
    /// The number of times that an entry begins again in one delivery after an outage, each time when its own server answers again: if it still
    /// fails, another server is away.
    package static let outagesPerDeliveryMax = 2
    /// The same number after refusals for an unknown reason: that takes two and a half seconds.
    static let refusalsPerDeliveryMax = 5
    /// The number of deliveries without progress up to which an entry is begun beside any others; at the next one it gets a turn of its own.
    public static let deliveriesTogetherMax: UInt32 = 2
    /// The time that entries in hand have to end before the turn of a poison entry.
    public static let poisonEmptyingMax = Duration.milliseconds(200)
    /// The time to tell Redis which entries are not to be blamed for what a poison entry does; a shard may be away.
    public static let poisonExcusingMax = Duration.seconds(1)
    /// The time of a poison entry's turn, in which only first deliveries begin beside it. An entry without progress after it is only slow.
    public static let poisonTurnMax = Duration.milliseconds(500)
    /// The time that entries in hand have before the turn of a poison entry that becomes a dead letter when its process ends once more:
    /// that end should be its own doing.
    public static let poisonLastEmptyingMax = Duration.seconds(2)
    /// The time of the turn of such a poison entry.
    public static let poisonLastTurnMax = Duration.seconds(3)
    /// The time that poison entries may follow one another before redelivered entries get their time. When one of these waits, it gets its
    /// time after the current turn.
    public static let poisonShutMax = Duration.milliseconds(500)
    /// The time that redelivered entries begin freely before the next poison entry.
    public static let poisonRest = Duration.milliseconds(500)
    /// The same time after a poison entry that made no progress, so that it is not excused if it ends the process after all.
    public static let poisonSlowRest = Duration.seconds(5)
    /// The maximum difference between a dispatcher's clock and Redis' at which no send goes out before its time. It is also the most by which
    /// Redis' clock may go back so that receipts are found, which then have ids before that of their command.
    public static let clockSkewMaxMilliseconds: Int64 = 60_000
    /// The time that a stream with room for entries may go without an answered read. A blocking read ends after two seconds at most, so
    /// beyond this limit something is wrong: the process is not ready, and connects anew.
    public static let readSilenceMax = Duration.seconds(10)
    /// The time without a request after which a consumer that owns nothing is removed.
    public static let consumerSilenceMax = Duration.seconds(24 * 3_600)
    /// The bytes of calls, of all shards, that a process keeps to repeat them after a failover. What exceeds them is sent again instead.
    public static let replayBytesMax = 32 * 1_024 * 1_024
    /// The approximate bytes that keeping one such call costs besides its own.
    public static let replayCallOverheadBytes = 160
    /// The time that such a call is kept, longer than the lag of any replica that would become the primary.
    public static let replayAge = Duration.seconds(60)
    /// The time that nothing is read from a new server, so that other processes replay first too; it is longer than any of them waits
    /// before it reconnects.
    public static let replayReadingPause = Duration.seconds(3)
    /// The time that a replica has to confirm what must survive the death of the primary.
    public static let replicaPatience = Duration.seconds(1)
    /// The number of deliveries without progress after which an entry becomes a dead letter.
    public static let deliveriesMax: UInt32 = 5
    /// The maximum of streams that one blocking read waits for.
    public static let streamsPerReadMax = 64
    /// The milliseconds after its last registration for which a token counts as new to the mass-failure guard: an hour.
    public static let newTokenMilliseconds: Int64 = 3_600_000
    /// The maximum of tokens of one route in quarantine. A token beyond them is not quarantined: it is sent to and counted again.
    public static let quarantinedTokensMax = 1_000_000
    /// The maximum of tokens that one call returns or removes.
    public static let quarantinedTokensPerCallMax = 500
    /// The maximum of broadcast channels of a route that are recorded as existing: a provider allows an app as many in each environment. Of
    /// further channels nothing is known, and the publisher's statement counts.
    public static let channelsMax = 10_000
    /// The maximum of broadcast channels of a route that are recorded as gone; the oldest are forgotten first.
    public static let channelsGoneMax = 10_000
    /// The milliseconds that a channel counts as gone: a day. Then the next send asks the provider again.
    public static let channelGoneMemoryMilliseconds: Int64 = 24 * 3_600_000
    /// The maximum of channels that one call forgets.
    static let channelsPerCallMax = 500
    /// The maximum of processes that share a rate limit; one more gets nothing until another leaves.
    public static let rateLimitMembersMax = 256
    /// The seconds' worth of permits that a rate limit gives out at most beyond its rate, with as many members as there may be: its bucket,
    /// and the permits in hand.
    public static let rateLimitBurstSeconds = 0.8
    /// The time between two reports of a process that it runs.
    package static let heartbeatInterval = Duration.seconds(2)
    /// The milliseconds without a report from which a process counts as missing: several reports may fail.
    package static let serviceSilenceMilliseconds: Int64 = 15_000
    /// The maximum of processes in the list; one more takes the place of the one that has been silent for longest.
    package static let serviceProcessesMax = 1_000
    /// The milliseconds after its last report for which a process stays in the list: a day.
    package static let serviceKeptMilliseconds: Int64 = 24 * 3_600_000
    /// The maximum of bytes of the reason why a process is not ready.
    package static let serviceProblemBytesMax = 500
    /// The maximum number of routes with a failing provider that a process reports.
    package static let serviceFailingRoutesMax = 100
}
