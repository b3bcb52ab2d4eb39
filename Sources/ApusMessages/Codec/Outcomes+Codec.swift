internal import ApusCore
internal import CApusMessages

extension OutcomeCount: @unsafe PackedPart {
    static var initialize: (UnsafeMutablePointer<Apus__V1__OutcomeCount>?) -> Void {
        unsafe apus__v1__outcome_count__init
    }

    init(unpacking packed: UnsafePointer<Apus__V1__OutcomeCount>) throws(MessageError) {
        self.init(
            provider: try unsafe Unpack.requiredWord(packed.pointee.provider.rawValue, "provider"),
            outcome: try unsafe Unpack.requiredWord(packed.pointee.outcome.rawValue, "outcome"),
            reason: try unsafe Unpack.requiredWord(packed.pointee.reason.rawValue, "reason"),
            count: unsafe packed.pointee.count,
        )
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__OutcomeCount>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.provider = Apus__V1__Provider(UInt32(self.provider.rawValue))
        unsafe packed.pointee.outcome = Apus__V1__Outcome(UInt32(self.outcome.rawValue))
        unsafe packed.pointee.reason = Apus__V1__Reason(UInt32(self.reason.rawValue))
        unsafe packed.pointee.count = self.count
    }

    func check() throws(MessageError) {}
}

extension RecipientPlace: @unsafe PackedPart {
    static var initialize: (UnsafeMutablePointer<Apus__V1__RecipientPlace>?) -> Void {
        unsafe apus__v1__recipient_place__init
    }

    init(unpacking packed: UnsafePointer<Apus__V1__RecipientPlace>) throws(MessageError) {
        let place = unsafe packed.pointee
        guard unsafe place.address > 0 else {
            self = unsafe .device(
                DeviceReference(partition: place.partition, ordinal: place.ordinal, generation: place.generation)
            )
            return
        }
        guard unsafe place.partition == 0 && place.ordinal == 0 && place.generation == 0 else {
            throw MessageError(.malformed, field: "address", "must not be given beside a place in the store")
        }
        self = unsafe .address(place.address - 1)
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__RecipientPlace>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        switch self {
        case .device(let device):
            unsafe packed.pointee.partition = device.partition
            unsafe packed.pointee.ordinal = device.ordinal
            unsafe packed.pointee.generation = device.generation
        case .address(let index):
            unsafe packed.pointee.address = index + 1
        }
    }

    func check() throws(MessageError) {
        switch self {
        case .device: return
        case .address(let index):
            guard index < UInt32(Limits.recipientsMax) else {
                throw MessageError(.limitExceeded, field: "address", "must be below \(Limits.recipientsMax)")
            }
        }
    }
}

extension TokenVerdict: @unsafe PackedPart {
    static var initialize: (UnsafeMutablePointer<Apus__V1__TokenVerdict>?) -> Void {
        unsafe apus__v1__token_verdict__init
    }

    init(unpacking packed: UnsafePointer<Apus__V1__TokenVerdict>) throws(MessageError) {
        self.init(
            place: try unsafe Unpack.required(packed.pointee.place, "place"),
            tokenDigest: unsafe packed.pointee.token_digest,
            asOf: unsafe UnixMilliseconds(packed.pointee.as_of_ms),
            reason: try unsafe Unpack.requiredWord(packed.pointee.reason.rawValue, "reason"),
            providerReason: unsafe Unpack.text(packed.pointee.provider_reason),
        )
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__TokenVerdict>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.place = try self.place.packed(arena)
        unsafe packed.pointee.token_digest = self.tokenDigest
        unsafe packed.pointee.as_of_ms = self.asOf.value
        unsafe packed.pointee.reason = Apus__V1__Reason(UInt32(self.reason.rawValue))
        unsafe packed.pointee.provider_reason = try unsafe Pack.text(self.providerReason, arena)
    }

    func check() throws(MessageError) {
        try within("place", self.place.check())
        try Check.time(self.asOf, "as_of_ms")
        try Check.text(self.providerReason, "provider_reason", bytesMax: Limits.providerTextBytesMax)
    }
}

extension RecipientOutcome: @unsafe PackedPart {
    static var initialize: (UnsafeMutablePointer<Apus__V1__RecipientOutcome>?) -> Void {
        unsafe apus__v1__recipient_outcome__init
    }

    init(unpacking packed: UnsafePointer<Apus__V1__RecipientOutcome>) throws(MessageError) {
        self.init(
            place: try unsafe Unpack.required(packed.pointee.place, "place"),
            outcome: try unsafe Unpack.requiredWord(packed.pointee.outcome.rawValue, "outcome"),
            reason: try unsafe Unpack.requiredWord(packed.pointee.reason.rawValue, "reason"),
            at: unsafe UnixMilliseconds(packed.pointee.at_ms),
        )
        self.providerReason = unsafe Unpack.text(packed.pointee.provider_reason)
        self.providerID = unsafe Unpack.text(packed.pointee.provider_id)
        self.device = unsafe Unpack.text(packed.pointee.device)
        self.provider = try unsafe Unpack.word(packed.pointee.provider.rawValue, "provider")
        self.environment = try unsafe Unpack.word(packed.pointee.environment.rawValue, "environment") ?? .production
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__RecipientOutcome>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.place = try self.place.packed(arena)
        unsafe packed.pointee.outcome = Apus__V1__Outcome(UInt32(self.outcome.rawValue))
        unsafe packed.pointee.reason = Apus__V1__Reason(UInt32(self.reason.rawValue))
        unsafe packed.pointee.provider_reason = try unsafe Pack.text(self.providerReason, arena)
        unsafe packed.pointee.provider_id = try unsafe Pack.text(self.providerID, arena)
        unsafe packed.pointee.at_ms = self.at.value
        unsafe packed.pointee.device = try unsafe Pack.text(self.device, arena)
        if let provider {
            unsafe packed.pointee.provider = Apus__V1__Provider(UInt32(provider.rawValue))
        }
        if self.provider != nil || self.environment != .production {
            unsafe packed.pointee.environment = Apus__V1__Environment(UInt32(self.environment.rawValue))
        }
    }

    func check() throws(MessageError) {
        try within("place", self.place.check())
        try Check.text(self.providerReason, "provider_reason", bytesMax: Limits.providerTextBytesMax)
        try Check.text(self.providerID, "provider_id", bytesMax: Limits.providerIDBytesMax)
        try Check.time(self.at, "at_ms")
        try Check.text(self.device, "device", bytesMax: Limits.deviceIDBytesMax)
    }
}
