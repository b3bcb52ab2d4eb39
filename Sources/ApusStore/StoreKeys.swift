package import ApusCore
package import ApusRedis

/// Names every key of the device store. `{t}` is the tag of a device partition.
///
/// | key | type | content |
/// | --- | --- | --- |
/// | `{t}<app>:<realm>:meta` | hash | next ordinal, generation, buckets and entries of `id` and `few` |
/// | `{t}<app>:<realm>:rec:<k>` | hash | ordinal mod 64 → header and record; k = ordinal / 64 |
/// | `{t}<app>:<realm>:badge:<k>` | hash | ordinal mod 64 → its badge, the time of the command that set it, and the last sends counted |
/// | `{t}<app>:<realm>:id:<b>` | hash | digest of the device id → ordinal |
/// | `{t}<app>:<realm>:few:<b>` | hash | topic and chunk → fewer than 32 ordinals, packed |
/// | `{t}<app>:<realm>:topic:<n>:<c>` | string | ordinals of topic n in chunk c: packed, or 512 bytes of bitmap |
/// | `{t}<app>:<realm>:freed` | list | ordinal and time; they rest an hour |
/// | `{t}<app>:<realm>:pruned` | sorted set | digests of the devices that were removed on a provider's word, by time |
/// | `{t}<app>:<realm>:pruned:<digest>` | string | header and record of such a device, while it can be brought back |
/// | `{t}<app>:<realm>:gone:<digest>` | string | the time as of which an app removed such a device, for an hour |
/// | `{t}<app>:gone:<digest>` | string | the time as of which a command forgot such a user, for an hour; t from the user |
/// | `{t}<app>:meta` | hash | buckets and entries of the three below |
/// | `{t}<app>:upkeep` | string | exists while the partition was checked recently |
/// | `{t}<app>:hist:<digest>` | list | the events of a device; only of devices that something happened to |
/// | `{t}<app>:hists` | sorted set | digests of the devices that have a history, by the time of the last event |
/// | `{t}<app>:tok:<b>` | hash | digest of a token → owners; t from the token |
/// | `{t}<app>:user:<b>` | hash | digest of a user → devices; t from the user |
/// | `{t}<app>:topics:<b>` | hash | name of a topic → counter; t from the name |
/// | `{t}<app>:former_of:<digest>` | set | devices of a user that were removed without its doing, while anything of them is kept; t from the user |
/// | `{t}<app>:topics_idle` | hash | names of topics that were found without devices → since when; t from the name |
/// | `{t}<app>:topic_ranks` | hash | which counters of forgotten topics may not be given again; t from the name |
/// | `{t}<app>:topic_list` | hash | all names of topics → who was the first in it; t from the app |
/// | `{t}<app>:topic_owners` | hash | who was the first in how many of them; t from the app |
/// | `{t}<app>:topics_upkeep` | string | exists while empty topics were searched for recently; t from the app |
///
/// The functions in `Functions/` derive the other keys from the meta key that they are given.
package struct StoreKeys: Sendable, Hashable {
    /// The mapping of ids to partitions.
    package let keyspace: Keyspace

    /// Creates the keys of that keyspace.
    package init(_ keyspace: Keyspace) { self.keyspace = keyspace }

    /// Returns the tag of a partition.
    package func tag(_ partition: Int) -> HashTag { self.keyspace.tag(partition: partition) }

    /// Returns one partition's share of a limit of an app.
    func share(of count: Int) -> Int { (count + self.keyspace.devicePartitions - 1) / self.keyspace.devicePartitions }

    /// Returns one partition's share of a limit of an app that honest ids must not meet before the app does: five standard deviations more
    /// than the mean. Of a million in 256 partitions that is 4,220 instead of 3,907.
    func generousShare(of count: Int) -> Int {
        let mean = Double(count) / Double(self.keyspace.devicePartitions)
        return Int((mean + 5 * mean.squareRoot()).rounded(.up))
    }

    /// Returns the meta key of a place: one app, realm and partition.
    package func meta(_ app: AppID, _ realm: Realm, _ partition: Int) -> String {
        self.key(app, realm, partition, "meta")
    }

    /// Returns the meta key of an app in a partition, for what does not depend on the realm.
    package func meta(_ app: AppID, _ partition: Int) -> String { self.key(app, partition, "meta") }

    /// Returns the key that records that an app's part of a partition was checked recently.
    package func upkeep(_ app: AppID, _ partition: Int) -> String { self.key(app, partition, "upkeep") }

    /// Returns the key that records that empty topics of an app were searched for recently.
    package func topicsUpkeep(_ app: AppID, _ partition: Int) -> String { self.key(app, partition, "topics_upkeep") }

    /// Returns the list of an app's topics.
    package func topicList(_ app: AppID, _ partition: Int) -> String { self.key(app, partition, "topic_list") }

    /// Returns the history of a device, by the digest of its id.
    package func history(_ app: AppID, _ partition: Int, digest: UInt64) -> String {
        self.key(app, partition, "hist:" + Self.digits(digest))
    }

    /// Returns the record of a removed device that can be brought back, by the digest of its id.
    func pruned(_ app: AppID, _ realm: Realm, _ partition: Int, digest: UInt64) -> String {
        self.key(app, realm, partition, "pruned:" + Self.digits(digest))
    }

    /// Returns the set of a user's devices that were removed without its doing, by the digest of the user.
    func formerDevices(_ app: AppID, _ partition: Int, ofUser digest: UInt64) -> String {
        self.key(app, partition, "former_of:" + Self.digits(digest))
    }

    private static func digits(_ digest: UInt64) -> String {
        let digits = String(digest, radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }

    /// Returns the index of devices with a history.
    package func histories(_ app: AppID, _ partition: Int) -> String { self.key(app, partition, "hists") }

    /// Returns the hash of 64 records.
    package func slab(_ app: AppID, _ realm: Realm, _ partition: Int, _ slab: Int) -> String {
        self.key(app, realm, partition, "rec:\(slab)")
    }

    /// Returns the hash of the badges of 64 ordinals; it has only devices whose badge was counted or set.
    package func badges(_ app: AppID, _ realm: Realm, _ partition: Int, _ slab: Int) -> String {
        self.key(app, realm, partition, "badge:\(slab)")
    }

    /// Returns a bucket of the ids or of the small postings.
    package func bucket(_ name: PlaceBuckets, _ app: AppID, _ realm: Realm, _ partition: Int, _ bucket: Int) -> String {
        self.key(app, realm, partition, "\(name.rawValue):\(bucket)")
    }

    /// Returns a bucket of the tokens, users or topics.
    package func bucket(_ name: AppBuckets, _ app: AppID, _ partition: Int, _ bucket: Int) -> String {
        self.key(app, partition, "\(name.rawValue):\(bucket)")
    }

    /// Returns a posting that has a key of its own.
    package func posting(_ app: AppID, _ realm: Realm, _ partition: Int, topic: UInt32, chunk: Int) -> String {
        self.key(app, realm, partition, "topic:\(topic):\(chunk)")
    }

    /// The bucketed hashes of a place.
    package enum PlaceBuckets: String, Sendable {
        /// Digest of the device id → ordinal.
        case ids = "id"
        /// Topic and chunk → ordinals.
        case few
    }

    /// The bucketed hashes of an app and partition.
    package enum AppBuckets: String, Sendable, CaseIterable {
        /// Digest of a token → owners.
        case tokens = "tok"
        /// Digest of a user → devices.
        case users = "user"
        /// Name of a topic → counter.
        case topics
    }

    private func key(_ app: AppID, _ partition: Int, _ rest: String) -> String {
        self.tag(partition).key(app.text + ":" + rest)
    }

    private func key(_ app: AppID, _ realm: Realm, _ partition: Int, _ rest: String) -> String {
        self.key(app, partition, realm.name + ":" + rest)
    }
}
