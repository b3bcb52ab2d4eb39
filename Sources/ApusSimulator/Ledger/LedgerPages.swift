/// Holds the ledger's entries and counters of one event loop: a value that is cheap to copy at any moment.
struct LedgerPages {
    static let pageEntries = 4_096
    private static let statuses = 600

    private(set) var full: [[PackedEntry]] = []
    private(set) var current: [PackedEntry] = []
    private(set) var sends = SendTable()
    private var arena = ByteArena()
    /// The numbers of requests by route and status; status 0 stands for not processed.
    private var statusCounts = [UInt64](
        repeating: 0,
        count: (Int(FaultRoute.numberMax) + 1) * LedgerPages.statuses
    )
    /// The numbers of requests with a fault, by ``Fault/label``.
    private(set) var faultCounts: [String: UInt64] = [:]
    private(set) var connections: UInt64 = 0
    private(set) var goAways: UInt64 = 0
    private(set) var timeline = AcceptanceTimeline()

    /// The number of entries.
    var count: Int { self.full.count * Self.pageEntries + self.current.count }

    /// Counts a request by the number of its route.
    mutating func countRequest(_ route: UInt8, status: Int, fault: Fault?) {
        self.statusCounts[Int(route) * Self.statuses + status] += 1
        if let fault { self.faultCounts[fault.label, default: 0] += 1 }
    }

    mutating func countConnection() { self.connections += 1 }
    mutating func countGoAway() { self.goAways += 1 }

    /// Stores an entry and its token.
    mutating func append(
        _ entry: PackedEntry,
        token: Span<UInt8>,
        send: Span<UInt8>,
        keepsLongTokens: Bool,
    ) {
        var entry = entry
        if token.count <= PackedEntry.tokenBytesMax {
            entry.token = Self.words(token)
            entry.tokenLength = token.count
        } else if keepsLongTokens {
            entry.token.0 = self.arena.store(token)
            entry.flags.insert(.farToken)
        } else {
            let digest = TokenDigest(token)
            (entry.token.2, entry.token.3) = (digest.high, digest.low)
            entry.flags.insert(.lostToken)
        }
        self.append(entry, send: send)
    }

    /// Stores an entry that has its token.
    mutating func append(_ entry: PackedEntry, send: Span<UInt8>) {
        var entry = entry
        entry.send = self.sends.number(of: send)
        if entry.isAccepted { self.timeline.note(entry.route, at: entry.time) }
        if self.current.capacity == 0 { self.current.reserveCapacity(Self.pageEntries) }
        self.current.append(entry)
        guard self.current.count == Self.pageEntries else { return }
        self.full.append(self.current)
        self.current = []
    }

    private static func words(_ token: Span<UInt8>) -> (UInt64, UInt64, UInt64, UInt64) {
        var words: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
        unsafe withUnsafeMutableBytes(of: &words) { room in
            unsafe token.withUnsafeBytes { unsafe room.copyMemory(from: $0) }
        }
        return words
    }

    /// Returns the token's bytes: raw or text. Empty when it was not kept.
    func token(of entry: PackedEntry) -> [UInt8] {
        if entry.flags.contains(.farToken) { return Array(self.arena.bytes(at: entry.token.0)) }
        guard !entry.flags.contains(.lostToken) else { return [] }
        var words = entry.token
        return unsafe withUnsafeBytes(of: &words) { unsafe Array($0.prefix(entry.tokenLength)) }
    }

    /// Returns the token's digest.
    func digest(of entry: PackedEntry) -> TokenDigest {
        guard !entry.flags.contains(.lostToken) else { return TokenDigest(high: entry.token.2, low: entry.token.3) }
        return TokenDigest(self.token(of: entry).span)
    }

    /// The pages in order.
    var pages: [[PackedEntry]] { self.full + (self.current.isEmpty ? [] : [self.current]) }

    /// Returns a page; nil past the end.
    func page(_ index: Int) -> [PackedEntry]? {
        if index < self.full.count { return self.full[index] }
        return index == self.full.count && !self.current.isEmpty ? self.current : nil
    }

    /// The numbers of requests by route and status.
    var statusTable: [(route: FaultRoute, status: Int, count: UInt64)] {
        FaultRoute.allCases.flatMap { route in
            (0..<Self.statuses).compactMap { status in
                let count = self.statusCounts[Int(route.number) * Self.statuses + status]
                return count == 0 ? nil : (route, status, count)
            }
        }
    }
}

/// Numbers sends by first occurrence, from 1.
struct SendTable {
    private var arena = ByteArena()
    private var places: [UInt64] = []
    private var numbers: [TokenDigest: UInt32] = [:]
    private var last: (digest: TokenDigest, number: UInt32)?

    /// The number of sends.
    var count: Int { self.places.count }

    /// Returns the number of a send; 0 for an empty text. A text beyond ``SimulatorLimits/sendBytesMax`` is cut.
    mutating func number(of send: Span<UInt8>) -> UInt32 {
        guard !send.isEmpty else { return 0 }
        let send = send.extracting(first: min(send.count, SimulatorLimits.sendBytesMax))
        let digest = TokenDigest(send)
        // Requests of one send are mostly consecutive.
        if let last, last.digest == digest { return last.number }
        let number: UInt32
        if let known = self.numbers[digest] {
            number = known
        } else {
            self.places.append(self.arena.store(send))
            number = UInt32(self.places.count)
            self.numbers[digest] = number
        }
        self.last = (digest, number)
        return number
    }

    /// Returns the number of a known send; `UInt32.max` for an unknown one.
    func number(named send: String) -> UInt32 {
        let bytes = Array(send.utf8.prefix(SimulatorLimits.sendBytesMax))
        return bytes.isEmpty ? 0 : self.numbers[TokenDigest(bytes.span)] ?? .max
    }

    /// Returns the send of a number; nil for 0.
    func bytes(_ number: UInt32) -> ArraySlice<UInt8>? {
        number == 0 ? nil : self.arena.bytes(at: self.places[Int(number) - 1])
    }
}

/// Stores runs of bytes permanently, in pages, so that a growing arena never copies them.
struct ByteArena {
    private static let pageBytes = 64 * 1_024

    private var full: [[UInt8]] = []
    private var current: [UInt8] = []

    /// Stores a run of at most 64 KiB and returns its place.
    mutating func store(_ bytes: Span<UInt8>) -> UInt64 {
        precondition(bytes.count <= Self.pageBytes, "a run fits in a page")
        if self.current.count + bytes.count > Self.pageBytes {
            self.full.append(self.current)
            self.current = []
        }
        if self.current.capacity == 0 { self.current.reserveCapacity(Self.pageBytes) }
        let place = UInt64(self.full.count) << 36 | UInt64(self.current.count) << 18 | UInt64(bytes.count)
        self.current.append(span: bytes)
        return place
    }

    /// Returns the run at a place.
    func bytes(at place: UInt64) -> ArraySlice<UInt8> {
        let page = Int(place >> 36)
        let start = Int(place >> 18 & 0x3ffff)
        let end = start + Int(place & 0x3ffff)
        return page < self.full.count ? self.full[page][start..<end] : self.current[start..<end]
    }
}
