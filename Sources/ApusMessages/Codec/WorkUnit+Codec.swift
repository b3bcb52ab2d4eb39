internal import ApusCore
internal import CApusMessages

extension WorkUnit: Message, @unsafe PackedMessage {
    static var bytesMax: Int { Limits.messageBytesMax }
    static var initialize: (UnsafeMutablePointer<Apus__V1__WorkUnit>?) -> Void {
        unsafe apus__v1__work_unit__init
    }

    /// Decodes a message of at most `Limits.messageBytesMax` bytes.
    public static func decode(_ bytes: Span<UInt8>, in arena: inout MessageArena) throws(MessageError) -> WorkUnit {
        try unsafe Self.unpack(bytes, arena)
    }

    /// Encodes the message.
    public func encode(in arena: inout MessageArena) throws(MessageError) -> [UInt8] { try unsafe self.pack(arena) }

    init(unpacking packed: UnsafePointer<Apus__V1__WorkUnit>) throws(MessageError) {
        let unit = unsafe packed.pointee
        let text = unsafe Unpack.text(unit.send)
        guard !text.isEmpty else { throw Check.missing("send") }
        guard let send = SendKey(text) else {
            throw MessageError(
                .malformed,
                field: "send",
                "must be an app and the id of a send, with a slash between them"
            )
        }
        self.init(
            send: send,
            route: unsafe RouteNumber(unit.route),
            recipients: try unsafe Recipients(unpacking: unit),
        )
        self.lane = try unsafe Unpack.word(unit.lane.rawValue, "lane") ?? .bulk
        self.attempt = unsafe unit.attempt
        self.expiresAt = unsafe Unpack.time(unit.expires_at_ms)
        self.publishedAtNanoseconds = unsafe unit.published_at_ns
        self.firstAttemptAt = unsafe Unpack.time(unit.first_attempt_ms)
        self.epoch = unsafe unit.epoch
        self.homeEnvironment = try unsafe Unpack.word(unit.home_environment.rawValue, "home_environment")
        self.waitsForThirdPartyAuth = unsafe unit.waits_for_partner != 0
        self.badgesCounted = unsafe unit.badges_counted != 0
        guard unsafe Int(unit.count) == self.recipients.count else {
            throw MessageError(.malformed, field: "count", "must be the number of recipients")
        }
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__WorkUnit>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.send = try unsafe Pack.text(self.send.description, arena)
        unsafe packed.pointee.route = self.route.value
        unsafe packed.pointee.lane = Apus__V1__Lane(UInt32(self.lane.rawValue))
        unsafe packed.pointee.count = UInt32(self.recipients.count)
        unsafe packed.pointee.attempt = self.attempt
        unsafe packed.pointee.expires_at_ms = self.expiresAt?.value ?? 0
        unsafe packed.pointee.published_at_ns = self.publishedAtNanoseconds
        unsafe packed.pointee.first_attempt_ms = self.firstAttemptAt?.value ?? 0
        unsafe packed.pointee.epoch = self.epoch
        unsafe packed.pointee.home_environment = Apus__V1__Environment(UInt32(self.homeEnvironment?.rawValue ?? 0))
        unsafe packed.pointee.waits_for_partner = self.waitsForThirdPartyAuth ? 1 : 0
        unsafe packed.pointee.badges_counted = self.badgesCounted ? 1 : 0
        try unsafe self.recipients.pack(into: packed, arena)
    }

    func check() throws(MessageError) {
        try Check.requiredText(self.send.description, "send", bytesMax: SendKey.bytesMax)
        guard self.route.value > 0 else { throw Check.missing("route") }
        guard self.attempt > 0 else { throw Check.missing("attempt") }
        try Check.optionalTime(self.expiresAt, "expires_at_ms")
        try Check.nanoseconds(self.publishedAtNanoseconds, "published_at_ns")
        try Check.optionalTime(self.firstAttemptAt, "first_attempt_ms")
        try self.recipients.check()
    }
}

extension WorkUnit.Recipients {
    fileprivate init(unpacking unit: Apus__V1__WorkUnit) throws(MessageError) {
        switch unsafe unit.recipients_case {
        case APUS__V1__WORK_UNIT__RECIPIENTS_SEGMENTS:
            guard let list = unsafe unit.segments?.pointee else { throw Check.missing("segments") }
            self = .segments(
                try within("segments", unsafe Unpack.parts(list.segments, list.n_segments, "segments"))
            )
        case APUS__V1__WORK_UNIT__RECIPIENTS_REFERENCES:
            guard let list = unsafe unit.references?.pointee else { throw Check.missing("references") }
            let count = unsafe list.n_partitions
            guard unsafe list.n_ordinals == count && list.n_generations == count else {
                throw MessageError(.malformed, field: "references", "must have as many of each of its parts")
            }
            let partitions = unsafe Unpack.numbers(list.partitions, count)
            let ordinals = unsafe Unpack.numbers(list.ordinals, count)
            let generations = unsafe Unpack.numbers(list.generations, count)
            self = .references(
                (0..<count).map { index in
                    DeviceReference(
                        partition: partitions[index],
                        ordinal: ordinals[index],
                        generation: generations[index],
                    )
                }
            )
        case APUS__V1__WORK_UNIT__RECIPIENTS_ADDRESSES:
            guard let list = unsafe unit.addresses?.pointee else { throw Check.missing("addresses") }
            self = .addresses(unsafe Unpack.numbers(list.indices, list.n_indices))
        default:
            throw Check.missing("recipients")
        }
    }

    fileprivate func pack(
        into packed: UnsafeMutablePointer<Apus__V1__WorkUnit>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        switch self {
        case .segments(let segments):
            let list = try unsafe arena.make(apus__v1__segments__init)
            unsafe list.pointee.n_segments = segments.count
            unsafe list.pointee.segments = try unsafe Pack.parts(segments, arena)
            unsafe packed.pointee.segments = list
            unsafe packed.pointee.recipients_case = APUS__V1__WORK_UNIT__RECIPIENTS_SEGMENTS
        case .references(let references):
            let list = try unsafe arena.make(apus__v1__references__init)
            unsafe list.pointee.n_partitions = references.count
            unsafe list.pointee.partitions = try unsafe Pack.numbers(references.map(\.partition), arena)
            unsafe list.pointee.n_ordinals = references.count
            unsafe list.pointee.ordinals = try unsafe Pack.numbers(references.map(\.ordinal), arena)
            unsafe list.pointee.n_generations = references.count
            unsafe list.pointee.generations = try unsafe Pack.numbers(references.map(\.generation), arena)
            unsafe packed.pointee.references = list
            unsafe packed.pointee.recipients_case = APUS__V1__WORK_UNIT__RECIPIENTS_REFERENCES
        case .addresses(let indices):
            let list = try unsafe arena.make(apus__v1__address_indices__init)
            unsafe list.pointee.n_indices = indices.count
            unsafe list.pointee.indices = try unsafe Pack.numbers(indices, arena)
            unsafe packed.pointee.addresses = list
            unsafe packed.pointee.recipients_case = APUS__V1__WORK_UNIT__RECIPIENTS_ADDRESSES
        }
    }

    fileprivate func check() throws(MessageError) {
        let field: StaticString
        switch self {
        case .segments(let segments):
            field = "segments"
            try unsafe within(field, Check.parts(segments, "segments", countMax: Limits.unitRecipientsMax))
        case .references:
            field = "references"
        case .addresses(let indices):
            field = "addresses"
            for (place, index) in indices.enumerated() where index >= UInt32(Limits.recipientsMax) {
                throw MessageError(
                    .limitExceeded,
                    field: "addresses.indices[\(place)]",
                    "must be below \(Limits.recipientsMax)",
                )
            }
        }
        guard self.count > 0 else { throw Check.missing("\(field)") }
        try Check.count(self.count, field, max: Limits.unitRecipientsMax)
    }
}

extension Segment: @unsafe PackedPart {
    static var initialize: (UnsafeMutablePointer<Apus__V1__Segment>?) -> Void {
        unsafe apus__v1__segment__init
    }

    init(unpacking packed: UnsafePointer<Apus__V1__Segment>) throws(MessageError) {
        let bytes = unsafe Unpack.bytes(packed.pointee.ordinals)
        guard bytes.count.isMultiple(of: 2) else {
            throw MessageError(.malformed, field: "ordinals", "must have two bytes each")
        }
        self.init(
            partition: unsafe packed.pointee.partition,
            chunk: unsafe packed.pointee.chunk,
            ordinals: stride(from: 0, to: bytes.count, by: 2).map { UInt16(bytes[$0]) << 8 | UInt16(bytes[$0 + 1]) },
        )
    }

    func pack(
        into packed: UnsafeMutablePointer<Apus__V1__Segment>,
        _ arena: borrowing MessageArena,
    ) throws(MessageError) {
        unsafe packed.pointee.partition = self.partition
        unsafe packed.pointee.chunk = self.chunk
        var bytes: [UInt8] = []
        bytes.reserveCapacity(2 * self.ordinals.count)
        for ordinal in self.ordinals {
            bytes.append(UInt8(ordinal >> 8))
            bytes.append(UInt8(truncatingIfNeeded: ordinal))
        }
        unsafe packed.pointee.ordinals = try unsafe Pack.bytes(bytes, arena)
    }

    func check() throws(MessageError) {
        guard self.chunk <= UInt32.max / UInt32(Limits.chunkOrdinals) else {
            throw MessageError(.malformed, field: "chunk", "must leave its ordinals 32 bits")
        }
        guard !self.ordinals.isEmpty else { throw Check.missing("ordinals") }
        var next: UInt16 = 0
        for ordinal in self.ordinals {
            guard ordinal >= next, ordinal < UInt16(Limits.chunkOrdinals) else {
                throw MessageError(
                    .malformed,
                    field: "ordinals",
                    "must be ascending and below \(Limits.chunkOrdinals)",
                )
            }
            next = ordinal + 1
        }
    }
}
