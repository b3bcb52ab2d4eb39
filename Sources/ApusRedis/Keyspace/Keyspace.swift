internal import ApusTLS

/// How keys are spread: Q queue shards `{q<n>}` and T device partitions `{t<n>}`.
///
/// The numbers n are chosen, not counted: for range i of Q (T) equal ranges of slots, the smallest n whose tag falls into
/// it. So a cluster of any size is balanced when its servers hold contiguous ranges; tags counted from 0 load six servers
/// with up to 1.24 times the mean.
public struct Keyspace: Sendable, Hashable {
    /// The most of either: sixteen slots for each.
    public static let sizeMax = 1_024
    /// How many queue shards a new installation gets.
    public static let queueShardsDefault = 16
    /// How many device partitions a new installation gets.
    public static let devicePartitionsDefault = 256

    /// The tags of the queue shards; their position is the shard's number.
    public let shardTags: [HashTag]
    /// The tags of the device partitions; their position is the partition's number.
    public let partitionTags: [HashTag]

    /// A keyspace of those sizes, each 1 to `sizeMax`.
    public init(queueShards: Int = queueShardsDefault, devicePartitions: Int = devicePartitionsDefault) {
        self.shardTags = Self.chosenTags(prefix: "q", count: queueShards)
        self.partitionTags = Self.chosenTags(prefix: "t", count: devicePartitions)
    }

    /// Q.
    public var queueShards: Int { self.shardTags.count }
    /// T.
    public var devicePartitions: Int { self.partitionTags.count }

    /// The tag of a queue shard, which is 0..<Q.
    public func tag(shard: Int) -> HashTag { self.shardTags[shard] }

    /// The tag of a device partition, which is 0..<T.
    public func tag(partition: Int) -> HashTag { self.partitionTags[partition] }

    /// Where an id of an app belongs.
    public func placement(app: String, id: String) -> Placement {
        self.placement(app: Array(app.utf8), id: Array(id.utf8))
    }

    /// Where an id of an app belongs: h = SHA-256(app ‖ 0x00 ‖ id), so that any language agrees.
    public func placement(app: [UInt8], id: [UInt8]) -> Placement {
        let hash = SHA256.hash(app, [0], id)
        let lead = Int(hash[0]) << 8 | Int(hash[1])
        return Placement(
            shard: lead % self.queueShards,
            partition: lead % self.devicePartitions,
            digest: hash[2..<10].reduce(0) { $0 << 8 | UInt64($1) },
        )
    }

    /// The queue shard of an id of an app.
    public func shard(app: String, id: String) -> Int { self.placement(app: app, id: id).shard }

    /// The device partition of an id of an app.
    public func partition(app: String, id: String) -> Int { self.placement(app: app, id: id).partition }

    /// The digest of an id of an app.
    public func digest(app: String, id: String) -> UInt64 { self.placement(app: app, id: id).digest }

    private static func chosenTags(prefix: String, count: Int) -> [HashTag] {
        precondition((1...Self.sizeMax).contains(count), "1 to \(Self.sizeMax) shards or partitions")
        var chosen = [HashTag?](repeating: nil, count: count)
        var missing = count
        var number = 0
        while missing > 0 {
            let tag = HashTag("\(prefix)\(number)")
            let range = Self.range(ofSlot: tag.slot, count: count)
            if chosen[range] == nil {
                chosen[range] = tag
                missing -= 1
            }
            number += 1
        }
        return chosen.compactMap(\.self)
    }

    /// Which of `count` ranges holds the slot; range i begins at i · 16,384 / count, rounded up.
    private static func range(ofSlot slot: Int, count: Int) -> Int { slot * count / HashTag.slotCount }
}

/// Where an id of an app belongs.
public struct Placement: Sendable, Hashable {
    /// The queue shard: h[0..1], big endian, modulo Q.
    public let shard: Int
    /// The device partition: h[0..1], big endian, modulo T.
    public let partition: Int
    /// h[2..9], big endian. Where it stands for an id, the full id is compared in the record.
    public let digest: UInt64

    /// A placement of those parts.
    public init(shard: Int, partition: Int, digest: UInt64) {
        self.shard = shard
        self.partition = partition
        self.digest = digest
    }
}
