/// What one event loop's requests left: a value that can be copied cheaply at any moment.
struct LedgerPages {
    static let pageEntries = 4_096
    private static let statuses = 600

    private(set) var full: [[PackedEntry]] = []
    private(set) var current: [PackedEntry] = []
    private(set) var sends = SendTable()
    private var arena = ByteArena()
    /// Requests by route and status; status 0: not looked at.
    private var statusCounts = [UInt64](repeating: 0, count: 4 * LedgerPages.statuses)
    /// Requests by ``Fault/label``.
    private var faultCounts: [String: UInt64] = [:]
    private(set) var connections: UInt64 = 0
    private(set) var goAways: UInt64 = 0
    private(set) var timeline = AcceptanceTimeline()

    /// Entries in all.
    var count: Int { self.full.count * Self.pageEntries + self.current.count }

    /// Counts a request; all routes.
    mutating func countRequest(_ route: FaultRoute, status: Int, fault: Fault?) {
        self.statusCounts[Int(route.rawValue) * Self.statuses + status] += 1
        if let fault { self.faultCounts[fault.label, default: 0] += 1 }
    }

    mutating func countConnection() { self.connections += 1 }
    mutating func countGoAway() { self.goAways += 1 }

    /// Keeps an entry; the token is filled in here.
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
            entry.token.0 = self.arena.keep(token)
            entry.flags.insert(.farToken)
        } else {
            let digest = TokenDigest(token)
            (entry.token.2, entry.token.3) = (digest.high, digest.low)
            entry.flags.insert(.lostToken)
        }
        self.append(entry, send: send)
    }

    /// Keeps an entry whose token is filled in.
    mutating func append(_ entry: PackedEntry, send: Span<UInt8>) {
        var entry = entry
        entry.send = self.sends.number(of: send)
        if entry.status == 200 { self.timeline.note(entry.route, at: entry.time) }
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

    /// The token's bytes: raw for Apple's, else text. Empty when it was not kept.
    func token(of entry: PackedEntry) -> [UInt8] {
        if entry.flags.contains(.farToken) { return Array(self.arena.bytes(at: entry.token.0)) }
        guard !entry.flags.contains(.lostToken) else { return [] }
        var words = entry.token
        return unsafe withUnsafeBytes(of: &words) { unsafe Array($0.prefix(entry.tokenLength)) }
    }

    /// The token's digest.
    func digest(of entry: PackedEntry) -> TokenDigest {
        guard !entry.flags.contains(.lostToken) else { return TokenDigest(high: entry.token.2, low: entry.token.3) }
        return TokenDigest(self.token(of: entry).span)
    }

    /// Every page in order.
    var pages: [[PackedEntry]] { self.full + (self.current.isEmpty ? [] : [self.current]) }

    /// One page; nil past the end.
    func page(_ index: Int) -> [PackedEntry]? {
        if index < self.full.count { return self.full[index] }
        return index == self.full.count && !self.current.isEmpty ? self.current : nil
    }

    /// Routes, statuses and how often they came.
    var statusTable: [(route: FaultRoute, status: Int, count: UInt64)] {
        FaultRoute.allCases.flatMap { route in
            (0..<Self.statuses).compactMap { status in
                let count = self.statusCounts[Int(route.rawValue) * Self.statuses + status]
                return count == 0 ? nil : (route, status, count)
            }
        }
    }

    /// Faults by their labels, and how often they struck.
    var faultTable: [String: UInt64] { self.faultCounts }
}

extension TokenDigest {
    init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }
}
