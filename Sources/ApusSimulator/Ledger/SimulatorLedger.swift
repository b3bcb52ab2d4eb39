internal import Synchronization

/// Records every received message: 64 bytes each, and the text of longer tokens.
///
/// It is thread-safe. Messages of one event loop are in order; between loops only their times are comparable.
public final class SimulatorLedger: Sendable {
    /// The bytes of an entry.
    package static let entryBytes = MemoryLayout<PackedEntry>.stride

    let shards: [LedgerShard]

    /// Creates a ledger for a number of event loops.
    ///
    /// - Parameters:
    ///   - keepsLongTokens: true to store tokens of more than 32 bytes; false for their digests only.
    public init(shards: Int = 1, keepsLongTokens: Bool = true) {
        precondition(shards >= 1, "an event loop writes")
        self.shards = (0..<shards).map { _ in LedgerShard(keepsLongTokens: keepsLongTokens) }
    }

    /// Returns the part of one event loop.
    package func shard(_ index: Int) -> LedgerShard { self.shards[index % self.shards.count] }

    /// A snapshot of the ledger; later requests do not change it.
    public var snapshot: LedgerSnapshot { LedgerSnapshot(shards: self.shards.map(\.snapshot)) }

    /// Deletes all entries and counters.
    public func reset() { for shard in self.shards { shard.reset() } }
}

/// The part of the ledger that the connections of one event loop write to.
package final class LedgerShard: Sendable {
    private let pages = Mutex(LedgerPages())
    private let keepsLongTokens: Bool

    init(keepsLongTokens: Bool) { self.keepsLongTokens = keepsLongTokens }

    /// The forms of a request's id.
    package enum ID: Sendable {
        /// There is no id.
        case none
        /// A UUID, big endian.
        case uuid(UInt64, UInt64)
        /// A message's number.
        case number(UInt64)
    }

    /// Records a message.
    ///
    /// - Parameters:
    ///   - route: the route of the request.
    ///   - token: raw bytes if `isRaw`, otherwise text.
    ///   - status: the status; 0 when the request was not processed.
    ///   - time: the time in nanoseconds since 1970.
    package func record(
        _ route: FaultRoute,
        token: Span<UInt8>,
        isRaw: Bool,
        id: ID,
        send: Span<UInt8>,
        status: Int,
        fault: Fault?,
        time: Int64,
    ) {
        var entry = PackedEntry()
        entry.time = time
        entry.route = route.number
        entry.status = status
        entry.fault = fault?.code ?? 0
        if isRaw { entry.flags.insert(.rawToken) }
        switch id {
        case .none: break
        case .uuid(let high, let low):
            entry.id = (high, low)
            entry.flags.insert(.uuid)
        case .number(let number):
            entry.id = (0, number)
            entry.flags.insert(.number)
        }
        self.pages.withLock { pages in
            pages.countRequest(route.number, status: status, fault: fault)
            pages.append(entry, token: token, send: send, keepsLongTokens: self.keepsLongTokens)
        }
    }

    /// Records a message without a fault whose token is in the entry already.
    func record(_ entry: PackedEntry, send: Span<UInt8>) {
        self.pages.withLock { pages in
            pages.countRequest(entry.route, status: entry.status, fault: nil)
            pages.append(entry, send: send)
        }
    }

    /// Counts a request without a message.
    package func count(_ route: FaultRoute, status: Int, fault: Fault?) {
        self.pages.withLock { $0.countRequest(route.number, status: status, fault: fault) }
    }

    /// Counts a connection.
    package func countConnection() { self.pages.withLock { $0.countConnection() } }

    /// Counts a GOAWAY.
    package func countGoAway() { self.pages.withLock { $0.countGoAway() } }

    var snapshot: LedgerPages { self.pages.withLock { $0 } }

    func reset() { self.pages.withLock { $0 = LedgerPages() } }
}
