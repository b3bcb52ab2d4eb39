/// Limits of the streams, by name. Those that a function enforces stand in its source too, and a test compares them.
public enum StreamLimits {
    /// Commands that wait in one mailbox before `publish` says "later".
    public static let mailboxEntriesMax = 10_000
    /// Units that wait per route and lane of a shard before planning pauses.
    public static let unitsWaitingMax = 64
    /// Dead letters kept per shard.
    public static let deadLettersMax = 10_000
    /// Receipts kept in a publisher's own stream, roughly; a publisher that never reads cannot fill Redis.
    public static let replyEntriesMax = 100_000
    /// Units that one step of a plan may append.
    public static let unitsPerStepMax = 16
    /// Due messages moved by one call.
    public static let dueBatchMax = 100
    /// Entries taken over by one call.
    public static let claimBatchMax = 10
    /// Deliveries without progress after which an entry is buried.
    public static let deliveriesMax: UInt32 = 5
    /// Streams that one blocking read may wait for.
    public static let streamsPerReadMax = 64
}
