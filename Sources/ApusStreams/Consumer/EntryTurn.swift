/// What the handling of an entry is told by its consumer, and tells it.
package struct EntryTurn: Sendable {
    /// Whether the process is stopping: what is in hand is to be brought to a good end soon.
    package let isStopping: @Sendable () -> Bool
    /// To be called whenever something of the entry has become durable: it is not what ended its earlier owners.
    package let progressed: @Sendable () -> Void
    /// To be called when the entry begins to wait for something of its own, such as its send's rate, and when it no longer does: as
    /// long as it waits others are read in its place, up to ``StreamLimits/waitingInHandMax``.
    package let waits: @Sendable (Bool) -> Void
    /// When the entry was this consumer's for certain: its lease runs from then.
    package let ownedAt: @Sendable () -> ContinuousClock.Instant

    /// A turn.
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
