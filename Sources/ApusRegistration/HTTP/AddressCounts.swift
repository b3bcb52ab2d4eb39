internal import Glibc
package import NIOCore
internal import Synchronization

/// Counts the open connections of each client address, so that one client cannot take all of them.
package final class AddressCounts: Sendable {
    /// A client's network address: all of IPv4's 32 bits, and the first 64 of IPv6's, which one customer has to himself (RFC 6177 §2).
    package struct Address: Hashable, Sendable {
        private let bits: UInt64
        private let isIPv6: Bool

        /// Reads the address of a peer; nil for one that has none, such as a Unix socket.
        package init?(_ socket: SocketAddress?) {
            guard let text = socket?.ipAddress else { return nil }
            // IPv4 on a socket of both is `::ffff:192.0.2.1` (RFC 4291 §2.5.5.2).
            if let ipv4 = Self.packed(text.hasPrefix("::ffff:") ? String(text.dropFirst(7)) : text, AF_INET) {
                self.bits = ipv4[..<4].reduce(0) { $0 << 8 | UInt64($1) }
                self.isIPv6 = false
            } else if let ipv6 = Self.packed(text, AF_INET6) {
                self.bits = ipv6[..<8].reduce(0) { $0 << 8 | UInt64($1) }
                self.isIPv6 = true
            } else {
                return nil
            }
        }

        private static func packed(_ text: String, _ family: Int32) -> [UInt8]? {
            var bytes = [UInt8](repeating: 0, count: 16)
            return unsafe inet_pton(family, text, &bytes) == 1 ? bytes : nil
        }
    }

    private let most: Int
    private let counts = Mutex<[Address: Int]>([:])

    /// Creates counts of no connections.
    ///
    /// - Parameter most: the maximum of one address's connections at once, from 1.
    package init(most: Int) {
        precondition(most > 0)
        self.most = most
    }

    /// The number of addresses that have connections.
    package var addressCount: Int { self.counts.withLock { $0.count } }

    /// Counts a connection of an address.
    ///
    /// - Returns: false when the address has as many as it may; the connection is not counted then.
    package func enter(_ address: Address) -> Bool {
        self.counts.withLock { counts in
            guard counts[address, default: 0] < self.most else { return false }
            counts[address, default: 0] += 1
            return true
        }
    }

    /// Counts a connection no more.
    package func leave(_ address: Address) {
        self.counts.withLock { counts in
            let left = (counts[address] ?? 0) - 1
            counts[address] = left > 0 ? left : nil
        }
    }
}
