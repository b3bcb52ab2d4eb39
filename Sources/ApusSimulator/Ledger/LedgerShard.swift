internal import Synchronization

/// One event loop's part of the ledger: written by its connections, read by anyone.
package final class LedgerShard: Sendable {
    private let pages = Mutex(LedgerPages())
    private let keepsLongTokens: Bool

    init(keepsLongTokens: Bool) { self.keepsLongTokens = keepsLongTokens }

    /// The id of a request, as it is kept.
    package enum ID: Sendable {
        /// None.
        case none
        /// A UUID, big endian.
        case uuid(UInt64, UInt64)
        /// A message's number.
        case number(UInt64)
    }

    /// Keeps a request to Apple or Google.
    ///
    /// - Parameters:
    ///   - route: not `oauth`: that is only counted.
    ///   - token: raw bytes if `isRaw`, else text.
    ///   - status: 0 when it is not looked at.
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
        entry.route = route.rawValue
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
            pages.countRequest(route, status: status, fault: fault)
            pages.append(entry, token: token, send: send, keepsLongTokens: self.keepsLongTokens)
        }
    }

    /// Keeps a request that no fault struck and whose token is in the entry already.
    func record(_ entry: PackedEntry, send: Span<UInt8>) {
        self.pages.withLock { pages in
            pages.countRequest(.apns, status: entry.status, fault: nil)
            pages.append(entry, send: send)
        }
    }

    /// Counts a request that leaves no entry.
    package func count(_ route: FaultRoute, status: Int, fault: Fault?) {
        self.pages.withLock { $0.countRequest(route, status: status, fault: fault) }
    }

    /// Counts a connection.
    package func countConnection() { self.pages.withLock { $0.countConnection() } }

    /// Counts a GOAWAY.
    package func countGoAway() { self.pages.withLock { $0.countGoAway() } }

    var snapshot: LedgerPages { self.pages.withLock { $0 } }

    func reset() { self.pages.withLock { $0 = LedgerPages() } }
}
