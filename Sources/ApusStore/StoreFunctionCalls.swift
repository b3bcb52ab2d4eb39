internal import ApusRedis
internal import ApusTexts

// The calls of the store's functions, with the fields that each declares in Lua.

struct PutDeviceCall: FunctionCall {
    static let function = "apus2_put_device"
    var keys: [String]
    var digest: [UInt8]
    var writing: StoreCalls.Writing

    func set(_ fields: inout CallFields) {
        fields.set("digest", CallBytes(self.digest))
        fields.set("expected", CallBytes(self.writing.expected), default: [])
        fields.set("record", CallBytes(self.writing.record))
        fields.set("registered_at", self.writing.stamp.text)
        fields.set("entered", CallBytes(packed(self.writing.entered)), default: [])
        fields.set("left", CallBytes(packed(self.writing.left)), default: [])
        fields.set("event", CallBytes(self.writing.event), default: [])
        fields.set("pruned", CallBytes(self.writing.pruned), default: [])
    }
}

struct PutVerdictCall: FunctionCall {
    static let function = "apus2_put_verdict"
    var put: PutDeviceCall
    var keys: [String] { self.put.keys }

    func set(_ fields: inout CallFields) { self.put.set(&fields) }
}

struct PutDevicesCall: FunctionCall {
    /// One of the devices: a list of what `apus2_put_device` takes, behind which of the keys it is to be in, from 1.
    struct Device: CallValue, Sendable {
        var place: Int
        var digest: [UInt8]
        var writing: StoreCalls.Writing

        func pack(into bytes: inout [UInt8]) {
            // A list of eight (MessagePack's fixarray).
            bytes.append(0x98)
            self.place.pack(into: &bytes)
            CallBytes(self.digest).pack(into: &bytes)
            CallBytes(self.writing.record).pack(into: &bytes)
            self.writing.stamp.text.pack(into: &bytes)
            CallBytes(self.writing.expected).pack(into: &bytes)
            CallBytes(packed(self.writing.entered)).pack(into: &bytes)
            CallBytes(packed(self.writing.left)).pack(into: &bytes)
            CallBytes(self.writing.event).pack(into: &bytes)
        }
    }

    static let function = "apus2_put_devices"
    var keys: [String]
    var devices: [Device]

    func set(_ fields: inout CallFields) {
        fields.set("devices", self.devices)
    }
}

struct RemoveDeviceCall: FunctionCall {
    static let function = "apus2_remove_device"
    var keys: [String]
    var digest: [UInt8]
    var expected: [UInt8]
    var topics: [UInt8]
    var forgetsHistory: Bool
    var undoMilliseconds: Int64 = 0
    var undoDevicesMax = 0
    var asOf: Int64 = 0
    var rememberMilliseconds: Int64 = 0
    var event: [UInt8] = []
    var keepHistoryMilliseconds: Int64 = 0
    var historiesMax = 0

    func set(_ fields: inout CallFields) {
        fields.set("digest", CallBytes(self.digest))
        fields.set("expected", CallBytes(self.expected))
        fields.set("topics", CallBytes(self.topics), default: [])
        fields.set("forgets_history", self.forgetsHistory, default: false)
        fields.set("undo_ms", self.undoMilliseconds, default: 0)
        fields.set("undo_devices_max", self.undoDevicesMax, default: 0)
        fields.set("as_of", self.asOf, default: 0)
        fields.set("remember_ms", self.rememberMilliseconds, default: 0)
        fields.set("event", CallBytes(self.event), default: [])
        fields.set("keep_history_ms", self.keepHistoryMilliseconds, default: 0)
        fields.set("histories_max", self.historiesMax, default: 0)
    }
}

struct NoteRemovalCall: FunctionCall {
    static let function = "apus2_note_removal"
    var keys: [String]
    var digest: [UInt8]
    var asOf: Int64
    var rememberMilliseconds: Int64

    func set(_ fields: inout CallFields) {
        fields.set("digest", CallBytes(self.digest))
        fields.set("as_of", self.asOf)
        fields.set("remember_ms", self.rememberMilliseconds)
    }
}

struct PrunedDevicesCall: FunctionCall {
    static let function = "apus2_pruned_devices"
    static let isReadOnly = true
    var keys: [String]
    var from: Int64
    var before: Int64
    var first: Int
    var limit: Int

    func set(_ fields: inout CallFields) {
        fields.set("from_ms", self.from)
        fields.set("before_ms", self.before)
        fields.set("first", self.first)
        fields.set("limit", self.limit)
    }
}

struct NoteFormerDeviceCall: FunctionCall {
    static let function = "apus2_note_former_device"
    var keys: [String]
    var device: [UInt8]
    var keepMilliseconds: Int64
    var devicesMax: Int

    func set(_ fields: inout CallFields) {
        fields.set("device", CallBytes(self.device))
        fields.set("keep_ms", self.keepMilliseconds)
        fields.set("devices_max", self.devicesMax)
    }
}

struct ForgetPrunedCall: FunctionCall {
    static let function = "apus2_forget_pruned"
    var keys: [String]
    var digest: [UInt8]
    var forgetsHistory: Bool
    var asOf: Int64 = 0
    var rememberMilliseconds: Int64 = 0

    func set(_ fields: inout CallFields) {
        fields.set("digest", CallBytes(self.digest))
        fields.set("forgets_history", self.forgetsHistory, default: false)
        fields.set("as_of", self.asOf, default: 0)
        fields.set("remember_ms", self.rememberMilliseconds, default: 0)
    }
}

struct FindDevicesCall: FunctionCall {
    static let function = "apus2_find_devices"
    static let isReadOnly = true
    var keys: [String]
    var digests: [[UInt8]]
    /// True when nobody needs the time of the answer.
    var omitsTime = false
    /// True when the answer tells how many devices there are in all those places.
    var countsDevices = false
    /// True when the answer has the devices' badges.
    var withBadges = false

    func set(_ fields: inout CallFields) {
        fields.set("digests", self.digests.map { CallBytes($0) })
        fields.set("omits_time", self.omitsTime, default: false)
        fields.set("counts_devices", self.countsDevices, default: false)
        fields.set("with_badges", self.withBadges, default: false)
    }
}

struct RepairDeviceCall: FunctionCall {
    static let function = "apus2_repair_device"
    var keys: [String]
    var ordinal: UInt32
    var expected: [UInt8]
    var digest: [UInt8]
    var entered: [UInt8]
    var left: [UInt8]

    func set(_ fields: inout CallFields) {
        fields.set("ordinal", self.ordinal)
        fields.set("expected", CallBytes(self.expected), default: [])
        fields.set("digest", CallBytes(self.digest), default: [])
        fields.set("entered", CallBytes(self.entered), default: [])
        fields.set("left", CallBytes(self.left), default: [])
    }
}

struct BeginUpkeepCall: FunctionCall {
    static let function = "apus2_begin_upkeep"
    var keys: [String]
    var seconds: Int

    func set(_ fields: inout CallFields) {
        fields.set("seconds", self.seconds)
    }
}

struct PlaceMetaCall: FunctionCall {
    static let function = "apus2_place_meta"
    static let isReadOnly = true
    var keys: [String]
}

struct ReadPostingsCall: FunctionCall {
    static let function = "apus2_read_postings"
    static let isReadOnly = true
    var keys: [String]
    var first: Int
    var count: Int
    var topics: [UInt32]

    func set(_ fields: inout CallFields) {
        fields.set("first", self.first)
        fields.set("count", self.count)
        fields.set("topics", self.topics)
    }
}

struct AddHistoryCall: FunctionCall {
    static let function = "apus2_add_history"
    var keys: [String]
    var keepMilliseconds: Int64
    var historiesMax: Int
    var events: [[UInt8]] = []
    var digests: [[UInt8]] = []
    var places: [Int] = []
    var ordinals: [UInt32] = []
    var generations: [UInt32] = []
    var troubles: [Int] = []

    func set(_ fields: inout CallFields) {
        fields.set("keep_ms", self.keepMilliseconds)
        fields.set("histories_max", self.historiesMax)
        fields.set("events", self.events.map { CallBytes($0) })
        fields.set("digests", self.digests.map { CallBytes($0) })
        fields.set("places", self.places)
        fields.set("ordinals", self.ordinals)
        fields.set("generations", self.generations)
        fields.set("troubles", self.troubles)
    }
}

struct ClaimTokenCall: FunctionCall {
    static let function = "apus2_claim_token"
    var keys: [String]
    var digest: [UInt8]
    var claimer: [UInt8]

    func set(_ fields: inout CallFields) {
        fields.set("digest", CallBytes(self.digest))
        fields.set("claimer", CallBytes(self.claimer))
    }
}

struct ConfirmTokenCall: FunctionCall {
    static let function = "apus2_confirm_token"
    var keys: [String]
    var digest: [UInt8]
    var claimer: [UInt8]
    var cleared: [UInt8]

    func set(_ fields: inout CallFields) {
        fields.set("digest", CallBytes(self.digest))
        fields.set("claimer", CallBytes(self.claimer))
        fields.set("cleared", CallBytes(self.cleared), default: [])
    }
}

struct ClaimTokensCall: FunctionCall {
    static let function = "apus2_claim_tokens"
    var keys: [String]
    var claims: [UInt8]
    /// True when what others own or have claimed is left to them.
    var leavesOwned = false

    func set(_ fields: inout CallFields) {
        fields.set("claims", CallBytes(self.claims))
        fields.set("leaves_owned", self.leavesOwned, default: false)
    }
}

struct ConfirmTokensCall: FunctionCall {
    static let function = "apus2_confirm_tokens"
    var keys: [String]
    var claims: [UInt8]

    func set(_ fields: inout CallFields) {
        fields.set("claims", CallBytes(self.claims))
    }
}

struct SettledTokensCall: FunctionCall {
    static let function = "apus2_settled_tokens"
    static let isReadOnly = true
    var keys: [String]
    var claims: [UInt8]

    func set(_ fields: inout CallFields) {
        fields.set("claims", CallBytes(self.claims))
    }
}

struct ReleaseTokenCall: FunctionCall {
    static let function = "apus2_release_token"
    var keys: [String]
    var digest: [UInt8]
    var owner: [UInt8]

    func set(_ fields: inout CallFields) {
        fields.set("digest", CallBytes(self.digest))
        fields.set("owner", CallBytes(self.owner))
    }
}

struct TokenOwnersCall: FunctionCall {
    static let function = "apus2_token_owners"
    static let isReadOnly = true
    var keys: [String]
    var digest: [UInt8]

    func set(_ fields: inout CallFields) {
        fields.set("digest", CallBytes(self.digest))
    }
}

struct AddUserCall: FunctionCall {
    static let function = "apus2_add_user"
    var keys: [String]
    var digest: [UInt8]
    var device: [UInt8]
    var devicesMax: Int
    var registered: Int64 = 0

    func set(_ fields: inout CallFields) {
        fields.set("digest", CallBytes(self.digest))
        fields.set("device", CallBytes(self.device))
        fields.set("devices_max", self.devicesMax)
        fields.set("registered", self.registered, default: 0)
    }
}

struct AddUsersCall: FunctionCall {
    static let function = "apus2_add_users"
    var keys: [String]
    var additions: [UInt8]
    var devicesMax: Int
    var times: [Int64] = []

    func set(_ fields: inout CallFields) {
        fields.set("additions", CallBytes(self.additions))
        fields.set("devices_max", self.devicesMax)
        fields.set("times", self.times, default: [])
    }
}

struct NoteUserRemovalCall: FunctionCall {
    static let function = "apus2_note_user_removal"
    var keys: [String]
    var digest: [UInt8]
    var asOf: Int64
    var rememberMilliseconds: Int64

    func set(_ fields: inout CallFields) {
        fields.set("digest", CallBytes(self.digest))
        fields.set("as_of", self.asOf)
        fields.set("remember_ms", self.rememberMilliseconds)
    }
}

struct RemoveUserCall: FunctionCall {
    static let function = "apus2_remove_user"
    var keys: [String]
    var digest: [UInt8]
    var device: [UInt8]

    func set(_ fields: inout CallFields) {
        fields.set("digest", CallBytes(self.digest))
        fields.set("device", CallBytes(self.device))
    }
}

struct UserDevicesCall: FunctionCall {
    static let function = "apus2_user_devices"
    static let isReadOnly = true
    var keys: [String]
    var digests: [[UInt8]]

    func set(_ fields: inout CallFields) {
        fields.set("digests", self.digests.map { CallBytes($0) })
    }
}

struct ReserveTopicCall: FunctionCall {
    static let function = "apus2_reserve_topic"
    var keys: [String]
    var name: String
    var topicsMax: Int
    var ownerTopicsMax: Int
    var owner: [UInt8]
    var usersTopicsMax: Int

    func set(_ fields: inout CallFields) {
        fields.set("name", self.name)
        fields.set("topics_max", self.topicsMax)
        fields.set("owner_topics_max", self.ownerTopicsMax)
        fields.set("owner", CallBytes(self.owner), default: [])
        fields.set("users_topics_max", self.usersTopicsMax, default: 0)
    }
}

struct ReleaseTopicCall: FunctionCall {
    static let function = "apus2_release_topic"
    var keys: [String]
    var name: String

    func set(_ fields: inout CallFields) {
        fields.set("name", self.name)
    }
}

struct ForgetTopicCall: FunctionCall {
    static let function = "apus2_forget_topic"
    var keys: [String]
    var digest: [UInt8]
    var name: String
    var restMilliseconds: Int64

    func set(_ fields: inout CallFields) {
        fields.set("digest", CallBytes(self.digest))
        fields.set("name", self.name)
        fields.set("rest_ms", self.restMilliseconds)
    }
}

struct UsedTopicsCall: FunctionCall {
    static let function = "apus2_used_topics"
    static let isReadOnly = true
    var keys: [String]
    var numbers: [UInt32]

    func set(_ fields: inout CallFields) {
        fields.set("numbers", self.numbers)
    }
}

struct FindTopicCall: FunctionCall {
    static let function = "apus2_find_topic"
    static let isReadOnly = true
    var keys: [String]
    var digest: [UInt8]
    var name: String
    var enters: Bool

    func set(_ fields: inout CallFields) {
        fields.set("digest", CallBytes(self.digest))
        fields.set("name", self.name)
        fields.set("enters", self.enters, default: false)
    }
}

struct FindTopicsCall: FunctionCall {
    static let function = "apus2_find_topics"
    static let isReadOnly = true
    var keys: [String]
    var topics: [[UInt8]]

    func set(_ fields: inout CallFields) {
        fields.set("topics_wanted", self.topics.map { CallBytes($0) })
    }
}

struct NumberTopicCall: FunctionCall {
    static let function = "apus2_number_topic"
    var keys: [String]
    var digest: [UInt8]
    var name: String
    var counterMax: Int

    func set(_ fields: inout CallFields) {
        fields.set("digest", CallBytes(self.digest))
        fields.set("name", self.name)
        fields.set("counter_max", self.counterMax)
    }
}

struct TopicNamesCall: FunctionCall {
    static let function = "apus2_topic_names"
    static let isReadOnly = true
    var keys: [String]
    var counters: [Int]

    func set(_ fields: inout CallFields) {
        fields.set("counters", self.counters)
    }
}

struct CountBadgesCall: FunctionCall {
    static let function = "apus2_count_badges"
    var keys: [String]
    var send: [UInt8]
    var increment: Int
    var isRepeated: Bool
    var devices: [UInt8]

    func set(_ fields: inout CallFields) {
        fields.set("send", CallBytes(self.send))
        fields.set("increment", self.increment)
        fields.set("is_repeated", self.isRepeated, default: false)
        fields.set("devices", CallBytes(self.devices))
    }
}

struct SetBadgeCall: FunctionCall {
    static let function = "apus2_set_badge"
    var keys: [String]
    var ordinal: UInt32
    var generation: UInt32
    var count: UInt32
    var asOf: Int64 = 0

    func set(_ fields: inout CallFields) {
        fields.set("ordinal", self.ordinal)
        fields.set("generation", self.generation)
        fields.set("count", self.count)
        fields.set("as_of", self.asOf, default: 0)
    }
}

/// The store's part of the function library.
package enum StoreFunctions {
    /// The Lua text.
    package static var source: [UInt8] { EmbeddedText.storeFunctions }
}
