/// How the store's functions spread fields over bucketed hashes (`store_shared.lua`): linear hashing, one bucket split at
/// a time. For whoever writes whole buckets.
enum LinearHashing {
    /// Entries per bucket, on average, beyond which one more bucket is made.
    static let bucketLoad = 100

    /// The buckets that so many fields have made, each added once to an empty hash.
    static func buckets(fields: Int) -> Int { max(1, (fields + Self.bucketLoad - 1) / Self.bucketLoad) }

    /// The bucket of a hash among `count`.
    static func bucket(of hash: UInt32, among count: Int) -> Int {
        let level = 1 << (Int.bitWidth - 1 - count.leadingZeroBitCount)
        let index = Int(hash) % (level * 2)
        return index < count ? index : index - level
    }

    /// What chooses the bucket of a digest: its first four bytes.
    static func hash(digest: UInt64) -> UInt32 { UInt32(truncatingIfNeeded: digest >> 32) }

    /// What chooses the bucket of a small posting.
    static func hash(topic: UInt32, chunk: Int) -> UInt32 {
        let mixed = UInt32(truncatingIfNeeded: UInt64(topic) * 2_053 + UInt64(chunk) * 40_503)
        return mixed ^ (mixed >> 8) ^ (mixed >> 17)
    }
}
