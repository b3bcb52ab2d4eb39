/// Encodes the header lists of requests with HPACK (RFC 7541): constant headers are indexed once per connection and
/// prebuilt; the parts that differ per request are literals that never enter the peer's table.
///
/// A prebuilt block is valid as long as the table does not change. It refers to template and authorization by their
/// serial numbers, so that it keeps neither alive.
@safe struct HPACKEncoder: ~Copyable {
    /// A prebuilt header block: two constant parts, with the path between them where it differs per request.
    private struct Block {
        var template: UInt64 = 0
        var authorization: UInt64 = 0
        /// The state of the table that the block was built for; `.max` when it may be used only once.
        var generation = UInt64.max
        var frontCount = 0
        var bytes = GrowingBytes()
    }

    /// The maximum number of cached blocks, one for each variant of a send.
    private static let blocksMax = 32
    /// The name of the header with a request's id, and the length of the text that follows, as a literal that is not indexed (RFC 7541 §6.2.2).
    private static let idPrefix: StaticString = "\u{0}\u{7}apns-id\u{24}"
    /// The maximum bytes of a path's length and first byte.
    private static let pathPrefixBytesMax = 6

    private var table = HPACKTable()
    private let blocks: UnsafeMutablePointer<Block>
    private var current = 0
    private var victim = 0

    init() {
        unsafe self.blocks = .allocate(capacity: Self.blocksMax)
        unsafe self.blocks.initialize(repeating: Block(), count: Self.blocksMax)
    }

    deinit {
        for index in 0..<Self.blocksMax { unsafe self.blocks[index].bytes.free() }
        unsafe self.blocks.deallocate()
    }

    /// Applies the peer's SETTINGS_HEADER_TABLE_SIZE.
    mutating func peerAllows(tableBytes: UInt32) { self.table.peerAllows(tableBytes) }

    /// Makes the block for a slot the current one. It must be followed by ``write(_:to:)``, once: a change of the
    /// peer's table must reach the peer.
    @unsafe @inline(__always)
    mutating func select(_ slot: UnsafeMutablePointer<ClientSlot>, _ state: UnsafeMutablePointer<ClientState>) {
        let block = unsafe self.blocks + self.current
        if unsafe block.pointee.template == slot.pointee.templateSerial,
            unsafe block.pointee.authorization == slot.pointee.authorizationSerial,
            unsafe block.pointee.generation == self.table.generation, unsafe slot.pointee.stream.blockCount == 0
        {
            return
        }
        unsafe self.selectOther(slot, state)
    }

    /// Returns the maximum bytes of the current block with the slot's own parts.
    @unsafe @inline(__always)
    func bytesMax(_ slot: UnsafeMutablePointer<ClientSlot>) -> Int {
        let added = unsafe slot.pointee.pathCount + RequestID.textBytes
        return unsafe self.blocks[self.current].bytes.count + added + Self.pathPrefixBytesMax
            + Self.idPrefix.utf8CodeUnitCount
    }

    /// Writes the current block with the slot's path and id, and advances the cursor. There must be room for ``bytesMax(_:)``.
    @unsafe @inline(__always)
    func write(_ slot: UnsafeMutablePointer<ClientSlot>, to cursor: inout UnsafeMutablePointer<UInt8>) {
        let block = unsafe self.blocks + self.current
        guard let start = unsafe block.pointee.bytes.start else { return }
        let frontCount = unsafe block.pointee.frontCount
        unsafe cursor.update(from: start, count: frontCount)
        unsafe cursor += frontCount
        let pathCount = unsafe slot.pointee.pathCount
        let request = unsafe slot.pointee.request.start
        if pathCount > 0, let request = unsafe request {
            // This is a literal without indexing; its name is entry 4 of the static table.
            unsafe cursor[0] = 0x04
            unsafe cursor += 1
            if pathCount < 0x7f {
                unsafe cursor[0] = UInt8(truncatingIfNeeded: pathCount)
                unsafe cursor += 1
            } else {
                unsafe HPACKTable.writeInteger(pathCount, prefixBits: 7, pattern: 0, to: &cursor)
            }
            unsafe cursor.update(from: request, count: pathCount)
            unsafe cursor += pathCount
        }
        let backCount = unsafe block.pointee.bytes.count - frontCount
        unsafe cursor.update(from: start + frontCount, count: backCount)
        unsafe cursor += backCount
        if unsafe slot.pointee.hasID, let request = unsafe request {
            let prefixCount = Self.idPrefix.utf8CodeUnitCount
            unsafe cursor.update(from: Self.idPrefix.utf8Start, count: prefixCount)
            unsafe cursor.advanced(by: prefixCount).update(from: request + pathCount, count: RequestID.textBytes)
            unsafe cursor += prefixCount + RequestID.textBytes
        }
    }

    // MARK: Building blocks

    @inline(never)
    private mutating func selectOther(
        _ slot: UnsafeMutablePointer<ClientSlot>,
        _ state: UnsafeMutablePointer<ClientState>
    ) {
        let (template, authorization) = unsafe (slot.pointee.templateSerial, slot.pointee.authorizationSerial)
        let isPlain = unsafe slot.pointee.stream.blockCount > 0
        var place: Int?
        if !isPlain {
            for index in 0..<Self.blocksMax {
                guard unsafe self.blocks[index].template == template,
                    unsafe self.blocks[index].authorization == authorization
                else { continue }
                place = index
            }
        }
        if let place {
            self.current = place
        } else {
            self.current = self.victim
            self.victim = (self.victim + 1) % Self.blocksMax
        }
        let block = unsafe self.blocks + self.current
        if place != nil, unsafe block.pointee.generation == self.table.generation { return }
        unsafe block.pointee.template = template
        unsafe block.pointee.authorization = authorization
        unsafe block.pointee.generation = .max
        unsafe block.pointee.bytes.clear(keeping: .max)
        let isOnce = unsafe self.table.announceSize(to: &block.pointee.bytes)
        if isPlain {
            if let start = unsafe slot.pointee.request.start {
                unsafe block.pointee.bytes.append(start, count: slot.pointee.stream.blockCount)
            }
            unsafe block.pointee.frontCount = block.pointee.bytes.count
            return
        }
        let before = self.table.generation
        let isShortest = unsafe self.build(
            block,
            state.pointee.templates[slot.pointee.template],
            state.pointee.authorizations[slot.pointee.authorization],
            isRepeated: place != nil
        )
        if !isOnce, isShortest, self.table.generation == before { unsafe block.pointee.generation = before }
    }

    /// Builds a block. Returns true when a second build would be no shorter: always, when the template was sent before.
    private mutating func build(
        _ block: UnsafeMutablePointer<Block>,
        _ template: RequestTemplate?,
        _ authorization: HeaderValue?,
        isRepeated: Bool
    ) -> Bool {
        guard let template else { preconditionFailure("a request without its template") }
        var fields = template.headers
        let frontCount = template.headersBeforePath
        if let authorization {
            let name: StaticString = "authorization"
            unsafe fields.append(
                HPACKTable.Field(
                    UnsafeBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount),
                    UnsafeBufferPointer(start: authorization.start, count: authorization.count)
                )
            )
        }
        // Fields that do not fit together would evict each other with every request.
        let isIndexed = fields.reduce(0) { $0 + $1.tableBytes } <= self.table.bytesMax
        var isShortest = true
        for (index, field) in fields.enumerated() {
            if index == frontCount { unsafe block.pointee.frontCount = block.pointee.bytes.count }
            let isKnown = unsafe self.table.encode(
                field,
                isIndexed: isIndexed,
                isRepeated: isRepeated,
                to: &block.pointee.bytes
            )
            if !isKnown { isShortest = false }
        }
        if fields.count == frontCount { unsafe block.pointee.frontCount = block.pointee.bytes.count }
        return isShortest
    }
}
