/// Connects the handler of an entry with the consumer that owns it.
package struct EntryTurn: Sendable {
    /// True while the process stops: what is in hand should come to a good end soon.
    package let isStopping: @Sendable () -> Bool
    /// Reports that something of the entry has become durable, so the entry has not ended its earlier owners.
    package let progressed: @Sendable () -> Void
    /// Reports when the entry begins or ends to wait for something of its own, such as its send's rate. While it waits, others are read in
    /// its place, up to ``ShardConsumer/Feed/waitingMax``.
    package let waits: @Sendable (Bool) -> Void
    /// The latest time at which the entry was this consumer's for certain; its lease runs from then.
    package let ownedAt: @Sendable () -> ContinuousClock.Instant

    /// Creates a turn.
    package init(
        isStopping: @escaping @Sendable () -> Bool,
        progressed: @escaping @Sendable () -> Void,
        waits: @escaping @Sendable (Bool) -> Void,
        ownedAt: @escaping @Sendable () -> ContinuousClock.Instant,
    ) {
        self.isStopping = isStopping
        self.progressed = progressed
        self.waits = waits
        self.ownedAt = ownedAt
    }
}
