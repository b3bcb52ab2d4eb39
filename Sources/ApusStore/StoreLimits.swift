internal import ApusCore

/// The store's own limits; those of what comes in are `Limits`.
package enum StoreLimits {
    /// Devices of one user. One more displaces the one that was seen longest ago.
    package static let devicesPerUserMax = 64
    /// Bytes of a record that are kept free for what providers say: a suspicion (14), an environment learnt (4), of each further address its
    /// suspicion, its environment and a longer length (5 each), and a former user (6).
    package static let verdictBytesMax = 14 + 4 + 5 * Limits.secondaryAddressesMax + 6
    /// Bytes of a record as apps may make it: less than the largest there may be, so that every verdict has room.
    package static let registeredRecordBytesMax = Limits.deviceRecordBytesMax - verdictBytesMax
    /// Ordinals of one hash of records.
    package static let slabOrdinals = 64
    /// Ordinals of one app, realm and partition: 65,536 chunks.
    package static let ordinalsMax = 1 << 28
    /// Times that a change is decided anew because somebody else changed the device in between.
    package static let attemptsMax = 16
    /// Digests in one look-up.
    package static let lookupMax = 64
    /// Devices that one call registers, and tokens, users and topics that one call enters or looks up for them: a millisecond of Redis.
    package static let registrationsPerCallMax = 64
    /// Bytes of records in a call that writes them, roughly: those to write and those that are expected.
    package static let registrationBytesPerCallMax = 128 * 1_024
    /// Postings in one read: bounds what one call may cost Redis.
    package static let postingsPerReadMax = 256
    /// Records of a slab from which on it is read whole. Measured: 0.27 µs for each listed field, 14 µs for all 64.
    package static let wholeSlabFrom = 48
    /// Devices that one call counts a badge for: a unit's.
    package static let badgesPerCallMax = Limits.unitRecipientsMax
    /// Bytes of a send's digest that its devices' badges remember.
    static let badgeSendBytes = 5
    /// Sends that a badge remembers to have counted.
    package static let badgeSendsMax = 8
    /// Topic numbers are below this: they take four bytes, and Lua's numbers are exact.
    package static let topicNumberMax = 1 << 31
    /// How long a topic must have been without devices before it is forgotten: longer than any registration is under way, and than a device
    /// that was in it can be brought back.
    package static let topicRestMilliseconds = undoMillisecondsMax + 86_400_000
    /// Names of topics in one call.
    static let topicsPerCallMax = 128
    /// Postings that one call looks for to tell which topics have devices: a millisecond of Redis or two.
    static let usedPostingsPerCallMax = 1_024
    /// A posting has a key of its own from this many ordinals on, and is a bitmap from the second number on.
    static let postingFewMax = 32
    static let postingBitmapFrom = 256
    /// Devices whose ids, tokens, users and memberships a load holds in memory at once.
    package static let loadGatheredMax = 1_000_000
    /// Devices of a load between two writes.
    static let loadStep = 16_384
    /// Events of one device's history; the oldest go.
    package static let historyEventsMax = 20
    /// Events that one call appends to histories.
    static let historyEventsPerCallMax = 256
    /// Devices of one app whose histories are kept, unless configured otherwise: some 100 MB when each has five events.
    package static let historiesStandard = 100_000
    /// How long the history of a device that nobody registered any more is kept after its removal.
    package static let staleHistoryMilliseconds: Int64 = 7 * 86_400_000
    /// Stale devices of one place that one look-over removes: so many percent of all that are there, so that a clock that is
    /// ahead costs few of them before somebody notices…
    package static let stalePercentMax = 5
    /// … but always so many …
    package static let staleDevicesMin = 8
    /// … and never more than these, which it holds in memory.
    package static let staleDevicesMax = 1_000
    /// Bytes of a provider's own word, or its id of a notification, in a history.
    package static let historyTextBytesMax = 128
    /// How long a device that a provider's word removed can be brought back, at most.
    package static let undoMillisecondsMax: Int64 = 7 * 86_400_000
    /// Devices of one app, provider and environment that can be brought back, roughly: each partition has its share.
    package static let undoDevicesMax = 1_000_000
    /// Removed devices of one user that are noted beside it, so that they are forgotten with it.
    static let prunedPerUserMax = 1_024
    /// Removed devices that one call reads.
    package static let undoPerCallMax = 128
    /// How often a device's seen-at moves.
    package static let freshHours: UInt32 = 24
    /// How long an unchanged registration is answered without a write. After it the time of the registration is written: a provider that
    /// called the token dead before is not believed any more.
    package static let freshMilliseconds: Int64 = 60_000
}
