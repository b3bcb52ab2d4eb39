internal import Synchronization

/// Records every message that came: 64 bytes each, and the text of longer tokens.
///
/// Thread-safe. Messages of one event loop are in order; between loops only their times tell.
public final class SimulatorLedger: Sendable {
    /// The bytes of an entry.
    package static let entryBytes = MemoryLayout<PackedEntry>.stride

    let shards: [LedgerShard]

    /// Creates a ledger for so many event loops.
    ///
    /// - Parameters:
    ///   - keepsLongTokens: true when tokens of more than 32 bytes are kept, or only their digest.
    public init(shards: Int = 1, keepsLongTokens: Bool = true) {
        precondition(shards >= 1, "an event loop writes")
        self.shards = (0..<shards).map { _ in LedgerShard(keepsLongTokens: keepsLongTokens) }
    }

    /// The part of one event loop.
    package func shard(_ index: Int) -> LedgerShard { self.shards[index % self.shards.count] }

    /// The ledger now; later requests do not change it.
    public var snapshot: LedgerSnapshot { LedgerSnapshot(shards: self.shards.map(\.snapshot)) }

    /// Deletes all entries and counters.
    public func reset() { for shard in self.shards { shard.reset() } }
}

/// The part of the ledger that the connections of one event loop write to.
package final class LedgerShard: Sendable {
    private let pages = Mutex(LedgerPages())
    private let keepsLongTokens: Bool

    init(keepsLongTokens: Bool) { self.keepsLongTokens = keepsLongTokens }

    /// The id of a request.
    package enum ID: Sendable {
        /// None.
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
    ///   - token: raw bytes if `isRaw`, else text.
    ///   - status: 0 when it was not processed.
    ///   - time: nanoseconds since 1970.
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

    /// Records a message that no fault struck and whose token is in the entry already.
    func record(_ entry: PackedEntry, send: Span<UInt8>) {
        self.pages.withLock { pages in
            pages.countRequest(entry.route, status: entry.status, fault: nil)
            pages.append(entry, send: send)
        }
    }

    /// Counts a request that is no message.
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
