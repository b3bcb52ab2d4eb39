internal import ApusTLS

/// Distributes keys over Q queue shards `{q<n>}` and T device partitions `{t<n>}`.
///
/// The numbers n are chosen, not counted: each of Q (T) equal ranges of slots gets the smallest n whose tag falls into
/// it. So a cluster of any size is balanced when its servers hold contiguous ranges; tags counted from 0 would load six
/// servers with up to 1.24 times the mean.
public struct Keyspace: Sendable, Hashable {
    /// The maximum of Q and of T: sixteen slots for each.
    public static let sizeMax = 1_024
    /// The number of queue shards of a new installation on one master.
    public static let queueShardsDefault = 16
    /// The number of queue shards of a new installation in a Redis Cluster: a multiple of 2, 3, 4, 5, 6, 10, 12, 15, 20 and 30 masters.
    public static let queueShardsOfCluster = 60
    /// The number of device partitions of a new installation.
    public static let devicePartitionsDefault = 256

    /// The tags of the queue shards, indexed by shard number.
    public let shardTags: [HashTag]
    /// The tags of the device partitions, indexed by partition number.
    public let partitionTags: [HashTag]

    /// Creates a keyspace of the given sizes, each from 1 to `sizeMax`.
    public init(queueShards: Int = queueShardsDefault, devicePartitions: Int = devicePartitionsDefault) {
        self.shardTags = Self.chosenTags(prefix: "q", count: queueShards)
        self.partitionTags = Self.chosenTags(prefix: "t", count: devicePartitions)
    }

    /// The number of queue shards, Q.
    public var queueShards: Int { self.shardTags.count }
    /// The number of device partitions, T.
    public var devicePartitions: Int { self.partitionTags.count }

    /// Returns the tag of a queue shard in 0..<Q.
    public func tag(shard: Int) -> HashTag { self.shardTags[shard] }

    /// Returns the tag of a device partition in 0..<T.
    public func tag(partition: Int) -> HashTag { self.partitionTags[partition] }

    /// Returns the hash by which an id of an app is placed.
    public static func hash(app: String, id: String) -> [UInt8] { Self.hash(app: app.utf8, id: id.utf8) }

    /// Returns the placement of an id of an app.
    public func placement(app: String, id: String) -> Placement {
        self.placement(ofHash: Self.hash(app: app, id: id))
    }

    /// Returns the placement of an id of an app.
    public func placement(app: [UInt8], id: [UInt8]) -> Placement {
        self.placement(ofHash: Self.hash(app: app, id: id))
    }

    /// Returns the hash by which an id of an app is placed: h = SHA-256(app ‖ 0x00 ‖ id), so that any language computes the same.
    public static func hash(app: some Collection<UInt8>, id: some Collection<UInt8>) -> [UInt8] {
        // In one piece: a hash of several parts starts OpenSSL's context twice.
        var bytes: [UInt8] = []
        bytes.reserveCapacity(app.count + 1 + id.count)
        bytes.append(contentsOf: app)
        bytes.append(0)
        bytes.append(contentsOf: id)
        return SHA256.hash(bytes.span)
    }

    /// Returns the placement of an id by its hash.
    public func placement(ofHash hash: [UInt8]) -> Placement {
        let lead = Int(hash[0]) << 8 | Int(hash[1])
        return Placement(
            shard: lead % self.queueShards,
            partition: lead % self.devicePartitions,
            digest: hash[2..<10].reduce(0) { $0 << 8 | UInt64($1) },
        )
    }

    /// Returns the queue shard of an id of an app.
    public func shard(app: String, id: String) -> Int { self.placement(app: app, id: id).shard }

    /// Returns the device partition of an id of an app.
    public func partition(app: String, id: String) -> Int { self.placement(app: app, id: id).partition }

    /// Returns the digest of an id of an app.
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

    /// Returns the number of the range that holds a slot; range i begins at i · 16,384 / count, rounded up.
    private static func range(ofSlot slot: Int, count: Int) -> Int { slot * count / HashTag.slotCount }
}

/// The shard, partition and digest of an id of an app.
public struct Placement: Sendable, Hashable {
    /// The queue shard: h[0..1], big endian, modulo Q.
    public let shard: Int
    /// The device partition: h[0..1], big endian, modulo T.
    public let partition: Int
    /// h[2..9], big endian. Where the digest stands for an id, the full id is compared in the record.
    public let digest: UInt64

    /// Creates a placement.
    public init(shard: Int, partition: Int, digest: UInt64) {
        self.shard = shard
        self.partition = partition
        self.digest = digest
    }
}
