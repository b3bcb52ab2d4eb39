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
    /// Requests by fault.
    private var faultCounts = [UInt64](repeating: 0, count: Int(Fault.codeMax) + 1)
    private(set) var connections: UInt64 = 0
    private(set) var goAways: UInt64 = 0
    private(set) var timeline = AcceptanceTimeline()

    /// Entries in all.
    var count: Int { self.full.count * Self.pageEntries + self.current.count }

    /// Counts a request; all routes.
    mutating func countRequest(_ route: FaultRoute, status: Int, fault: UInt8) {
        self.statusCounts[Int(route.rawValue) * Self.statuses + status] += 1
        self.faultCounts[Int(fault)] += 1
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

    /// Faults and how often they struck.
    var faultTable: [(name: String, count: UInt64)] {
        self.faultCounts.enumerated().compactMap { code, count in
            guard count > 0, let name = Fault.name(code: UInt8(code)) else { return nil }
            return (name, count)
        }
    }
}

extension TokenDigest {
    init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }
}
