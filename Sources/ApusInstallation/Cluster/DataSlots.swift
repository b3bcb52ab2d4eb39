package import ApusRedis

/// Tells which slots of a Redis Cluster hold an installation's shards and partitions. All other slots are empty, but for a few small
/// keys of the installation.
package struct DataSlots: Hashable, Sendable {
    /// The content of a slot.
    package enum Content: Hashable, Sendable {
        /// The queue shard of that number.
        case shard(Int)
        /// The device partition of that number.
        case partition(Int)
    }

    /// The slots of the queue shards, in ascending order.
    package let shards: [Int]
    /// The slots of the device partitions that hold no shard, in ascending order.
    package let partitions: [Int]
    private let contents: [Int: Content]

    /// Finds the slots of a keyspace.
    package init(_ keyspace: Keyspace) {
        var contents: [Int: Content] = [:]
        for partition in 0..<keyspace.devicePartitions {
            contents[keyspace.tag(partition: partition).slot] = .partition(partition)
        }
        // The work of a shard weighs more than a partition in the same slot.
        for shard in 0..<keyspace.queueShards { contents[keyspace.tag(shard: shard).slot] = .shard(shard) }
        self.contents = contents
        self.shards = Set(keyspace.shardTags.map(\.slot)).sorted()
        self.partitions = Set(keyspace.partitionTags.map(\.slot)).subtracting(self.shards).sorted()
    }

    /// Returns the content of a slot; nil for a slot without a shard or partition.
    package subscript(_ slot: Int) -> Content? { self.contents[slot] }
}
