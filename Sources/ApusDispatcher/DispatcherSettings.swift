internal import ApusStreams

/// The dispatcher's own numbers. Relations between them are checked when they are made.
public struct DispatcherSettings: Hashable, Sendable {
    /// How long an owner may be silent before others take its work; a `kill -9` costs this much delay.
    public var leaseMilliseconds: Int64
    /// How often progress is written while there is some: what a `kill -9` repeats is bounded by the window plus rate × this.
    public var flushMilliseconds: Int64
    /// How often an owner speaks up without progress.
    public var heartbeatMilliseconds: Int64
    /// How often retries and scheduled sends are looked for.
    public var dueMilliseconds: Int64
    /// Work units of one queue shard in hand at once.
    public var unitsInHandMax: Int
    /// Mailbox entries of one queue shard in hand at once.
    public var commandsInHandMax: Int
    /// How long a stop waits for what is on the wire.
    public var drainMilliseconds: Int64
    /// Recipients of one unit.
    public var unitRecipientsMax: Int

    /// Settings.
    public init(
        leaseMilliseconds: Int64 = 10_000,
        flushMilliseconds: Int64 = 10,
        heartbeatMilliseconds: Int64 = 1_000,
        dueMilliseconds: Int64 = 100,
        unitsInHandMax: Int = 4,
        commandsInHandMax: Int = 256,
        drainMilliseconds: Int64 = 25_000,
        unitRecipientsMax: Int = 500,
    ) {
        precondition(flushMilliseconds > 0 && flushMilliseconds <= heartbeatMilliseconds)
        precondition(heartbeatMilliseconds * 2 < leaseMilliseconds, "an owner must be able to miss a beat")
        precondition(unitsInHandMax > 0 && commandsInHandMax > 0 && unitRecipientsMax > 0)
        self.leaseMilliseconds = leaseMilliseconds
        self.flushMilliseconds = flushMilliseconds
        self.heartbeatMilliseconds = heartbeatMilliseconds
        self.dueMilliseconds = dueMilliseconds
        self.unitsInHandMax = unitsInHandMax
        self.commandsInHandMax = commandsInHandMax
        self.drainMilliseconds = drainMilliseconds
        self.unitRecipientsMax = unitRecipientsMax
    }
}
