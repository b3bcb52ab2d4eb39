/// Computes how the store's functions spread fields over bucketed hashes (`store_shared.lua`), by linear hashing: one bucket is split at a
/// time. It serves writers of whole buckets.
enum LinearHashing {
    /// The average of entries per bucket beyond which one more bucket is made.
    static let bucketLoad = 100

    /// Returns the number of buckets that so many fields make, each added once to an empty hash.
    static func buckets(fields: Int) -> Int { max(1, (fields + Self.bucketLoad - 1) / Self.bucketLoad) }

    /// Returns the bucket of a hash among `count`.
    static func bucket(of hash: UInt32, among count: Int) -> Int {
        let level = 1 << (Int.bitWidth - 1 - count.leadingZeroBitCount)
        let index = Int(hash) % (level * 2)
        return index < count ? index : index - level
    }

    /// Returns the hash that determines the bucket of a digest: its first four bytes.
    static func hash(digest: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: digest >> 32) }

    /// Returns the hash that determines the bucket of a small posting.
    static func hash(topic: UInt32, chunk: Int) -> UInt32 {
        let mixed = UInt32(truncatingIfNeeded: UInt64(topic) * 2_053 + UInt64(chunk) * 40_503)
        return mixed ^ (mixed >> 8) ^ (mixed >> 17)
    }
}
