internal import ApusCore

/// Names the store's own limits; those of input are in `Limits`.
package enum StoreLimits {
    /// The maximum of devices of one user. One more displaces the device that was seen longest ago: it stays, without a user.
    package static let devicesPerUserMax = 64
    /// The bytes of a record that are kept free for verdicts of providers: a suspicion (14), a learnt environment (4), of each further
    /// address its suspicion, its environment and a longer length (5 each), a former user (6), and the time of a change (9).
    static let verdictBytesMax = 14 + 4 + 5 * Limits.secondaryAddressesMax + 6 + 9
    /// The maximum of bytes of a record that apps may make: less than the largest possible record, so that every verdict has room.
    package static let registeredRecordBytesMax = Limits.deviceRecordBytesMax - verdictBytesMax
    /// The ordinals of one hash of records.
    package static let slabOrdinals = 64
    /// The ordinals of one app, realm and partition: 65,536 chunks.
    package static let ordinalsMax = 1 << 28
    /// The maximum of attempts at a change while others change the device in between.
    package static let attemptsMax = 16
    /// The maximum of digests in one look-up.
    package static let lookupMax = 64
    /// The time for which a token must have had every message refused, with at least one at its end, before it counts as bad: a day.
    package static let refusalsMilliseconds: Int64 = 86_400_000
    /// Devices that one call registers, and tokens, users and topics that one call enters or looks up for them: a millisecond of Redis.
    package static let registrationsPerCallMax = 64
    /// Bytes of records in a call that writes them, roughly: those to write and those that are expected.
    package static let registrationBytesPerCallMax = 128 * 1_024
    /// Postings in one read: bounds what one call may cost Redis.
    package static let postingsPerReadMax = 256
    /// The number of records of a slab from which on it is read whole. Measured: 0.27 µs for each listed field, 14 µs for all 64.
    package static let wholeSlabFrom = 48
    /// The maximum of devices that one call counts a badge for: those of a unit.
    package static let badgesPerCallMax = Limits.unitRecipientsMax
    /// The bytes of a send's digest that its devices' badges remember.
    static let badgeSendBytes = 5
    /// The number of sends that a badge remembers.
    package static let badgeSendsMax = 8
    /// The exclusive upper limit of topic numbers: they take four bytes, and Lua's numbers are exact.
    package static let topicNumberMax = 1 << 31
    /// The time that a topic must have been without devices before it is forgotten: longer than any registration takes, and than a device
    /// that was in it can be brought back.
    package static let topicRestMilliseconds = undoMillisecondsMax + 86_400_000
    /// The number of hashes of topics' names, as in topics.lua.
    static let topicHashes = 4_096
    /// The maximum of names of topics in one call.
    static let topicsPerCallMax = 128
    /// The maximum of postings that one call searches for to find which topics have devices: a millisecond of Redis or two.
    static let usedPostingsPerCallMax = 1_024
    /// A posting has a key of its own from this many ordinals on, and is a bitmap from the second number on.
    static let postingFewMax = 32
    static let postingBitmapFrom = 256
    /// The maximum of devices whose ids, tokens, users and memberships a load holds in memory at once.
    package static let loadGatheredMax = 1_000_000
    /// The number of devices of a load between two writes.
    static let loadStep = 16_384
    /// The maximum of events of one device's history; the oldest are dropped.
    package static let historyEventsMax = 20
    /// Events that one call appends to histories.
    static let historyEventsPerCallMax = 256
    /// Devices of one app whose histories are kept, unless configured otherwise: some 100 MB when each has five events.
    package static let historiesDefault = 100_000
    /// The maximum time that a history is kept after its last event.
    package static let historyMillisecondsMax: Int64 = 90 * 86_400_000
    /// The time that the history of a device which nobody registered any more is kept after its removal.
    package static let staleHistoryMilliseconds: Int64 = 7 * 86_400_000
    /// The percentage of all devices of a place that one check of the janitor removes as stale at most, so that a clock that is ahead costs
    /// few of them before somebody notices.
    package static let stalePercentMax = 5
    /// The number of stale devices that one check may remove whatever the percentage.
    package static let staleDevicesMin = 8
    /// The maximum of records of one place that one check encrypts with the current key: it holds them in memory.
    package static let reencryptedMax = 10_000
    /// The maximum of devices of one place whose marks as suspect one check ends: it holds them in memory.
    package static let unwatchedDevicesMax = 1_000
    /// The maximum of stale devices that one check removes whatever the percentage: it holds them in memory.
    package static let staleDevicesMax = 1_000
    /// The maximum of bytes of a provider's own reason, or its id of a notification, in a history.
    package static let historyTextBytesMax = 128
    /// The maximum time that a device removed on a provider's word can be brought back.
    package static let undoMillisecondsMax: Int64 = 7 * 86_400_000
    /// The approximate number of devices of one app, provider and environment that can be brought back: each partition has its share.
    package static let undoDevicesMax = 1_000_000
    /// The maximum of removed devices that are recorded beside a user, so that they are forgotten with it.
    static let formerDevicesPerUserMax = 1_024
    /// The maximum of removed devices that one call reads.
    package static let undoPerCallMax = 128
    /// The time for which it is known that a device was removed: an older registration that is carried out late does not bring it back.
    package static let removalMilliseconds: Int64 = 3_600_000
    /// The time between two updates of a device's seen-at.
    package static let freshHours: UInt32 = 24
    /// The time that an unchanged registration is answered without a write. After it the time of the registration is written, so that an
    /// earlier verdict of a provider that the token is dead does not count any more.
    package static let freshMilliseconds: Int64 = 60_000
}
