/// What the handling of an entry is told by its consumer, and tells it.
package struct EntryTurn: Sendable {
    /// Whether the process is stopping: what is in hand is to be brought to a good end soon.
    package let isStopping: @Sendable () -> Bool
    /// To be called whenever something of the entry has become durable: it is not what ended its earlier owners.
    package let progressed: @Sendable () -> Void

    /// A turn.
    package init(isStopping: @escaping @Sendable () -> Bool, progressed: @escaping @Sendable () -> Void) {
        self.isStopping = isStopping
        self.progressed = progressed
    }
}
