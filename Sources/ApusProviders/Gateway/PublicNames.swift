internal import Glibc
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// Looks up names of hosts and gives addresses of the public internet only, on threads of its own: a look-up may take as long as whoever
/// answers for the name likes.
final class PublicNames: Sendable {
    private let threads: NIOThreadPool
    private let isPublic: @Sendable ([UInt8]) -> Bool
    private let lookUp: @Sendable (_ host: String, _ family: CInt) -> [[UInt8]]

    /// Starts the threads.
    ///
    /// - Parameters:
    ///   - isPublic: returns true for an address of four or sixteen bytes that may be connected to.
    ///   - lookUp: returns the addresses of a name.
    init(
        threads count: Int,
        isPublic: @escaping @Sendable ([UInt8]) -> Bool = { PublicAddress.isPublic($0) },
        lookUp: @escaping @Sendable (_ host: String, _ family: CInt) -> [[UInt8]] = {
            PublicNames.addresses(of: $0, $1)
        },
    ) {
        self.threads = NIOThreadPool(numberOfThreads: count)
        self.isPublic = isPublic
        self.lookUp = lookUp
        self.threads.start()
    }

    /// Ends the threads.
    func close() async throws { try await self.threads.shutdownGracefully() }

    // Providers' names and those that anybody may name have threads apart: slow answers to the latter do not hold up the former.
    private static let ofKnown = PublicNames(threads: 2)
    private static let ofUnknown = PublicNames(threads: 4)

    /// Returns what the whole process looks up names with; nil for hosts that may lead to any address.
    static func shared(by trust: HostTrust) -> PublicNames? {
        switch trust {
        case .named: nil
        case .known: Self.ofKnown
        case .unknown: Self.ofUnknown
        }
    }

    /// Returns the resolver of one attempt to connect.
    func resolver(on eventLoop: any EventLoop) -> PublicResolver { PublicResolver(self, on: eventLoop) }

    /// Returns the addresses of a host in one family.
    ///
    /// - Parameter isCancelled: returns true when nobody waits for them any more.
    fileprivate func find(
        _ host: String,
        _ port: Int,
        _ family: CInt,
        on eventLoop: any EventLoop,
        isCancelled: @escaping @Sendable () -> Bool,
    ) -> EventLoopFuture<[SocketAddress]> {
        self.threads.runIfActive(eventLoop: eventLoop) { () throws -> [SocketAddress] in
            guard !isCancelled() else { return [] }
            let found = self.lookUp(host, family)
            let publicOnes = found.filter(self.isPublic)
            guard found.isEmpty || !publicOnes.isEmpty else {
                throw NotPublic(description: "\(host) leads to no address of the public internet")
            }
            return try publicOnes.map { try SocketAddress(packedIPAddress: ByteBuffer(bytes: $0), port: port) }
        }
    }

    /// The name leads to no public address.
    struct NotPublic: Error, CustomStringConvertible {
        let description: String
    }

    /// Returns the addresses of a name: four or sixteen bytes each.
    static func addresses(of host: String, _ family: CInt) -> [[UInt8]] {
        var hints = unsafe addrinfo()
        unsafe hints.ai_family = family
        unsafe hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
        var first: UnsafeMutablePointer<addrinfo>?
        guard unsafe getaddrinfo(host, nil, &hints, &first) == 0 else { return [] }
        defer { unsafe freeaddrinfo(first) }
        var addresses: [[UInt8]] = []
        var next = unsafe first
        while let entry = unsafe next {
            // The address stands behind family and port, and in the longer form behind the flow label too.
            let place = family == AF_INET ? 4..<8 : 8..<24
            if let raw = unsafe entry.pointee.ai_addr, unsafe entry.pointee.ai_family == family {
                let bytes = unsafe UnsafeRawBufferPointer(start: raw, count: Int(entry.pointee.ai_addrlen))
                unsafe addresses.append(Array(bytes[place]))
            }
            unsafe next = entry.pointee.ai_next
        }
        return addresses
    }
}

/// Resolves the name of one attempt to connect. The connection is made to the very address that was checked, so a name cannot lead elsewhere
/// between check and connection.
final class PublicResolver: Resolver, Sendable {
    private let names: PublicNames
    private let eventLoop: any EventLoop
    private let isCancelled = Mutex(false)

    fileprivate init(_ names: PublicNames, on eventLoop: any EventLoop) {
        self.names = names
        self.eventLoop = eventLoop
    }

    func initiateAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> { self.find(host, port, AF_INET) }

    func initiateAAAAQuery(host: String, port: Int) -> EventLoopFuture<[SocketAddress]> {
        self.find(host, port, AF_INET6)
    }

    /// Skips look-ups that have not begun; one that has cannot be stopped, and its result is ignored.
    func cancelQueries() { self.isCancelled.withLock { $0 = true } }

    private func find(_ host: String, _ port: Int, _ family: CInt) -> EventLoopFuture<[SocketAddress]> {
        self.names.find(host, port, family, on: self.eventLoop) { self.isCancelled.withLock { $0 } }
    }
}

/// Tells addresses of the public internet from all others.
///
/// Source: https://www.iana.org/assignments/iana-ipv4-special-registry and
/// https://www.iana.org/assignments/iana-ipv6-special-registry
package enum PublicAddress {
    /// The blocks that are not public, with the number of their leading bits.
    private static let blocks: [(first: UInt32, bits: UInt32)] = [
        (0x0000_0000, 8), (0x0a00_0000, 8), (0x6440_0000, 10), (0x7f00_0000, 8), (0xa9fe_0000, 16), (0xac10_0000, 12),
        (0xc000_0000, 24), (0xc000_0200, 24), (0xc058_6300, 24), (0xc0a8_0000, 16), (0xc612_0000, 15),
        (0xc633_6400, 24), (0xcb00_7100, 24), (0xe000_0000, 3),
    ]

    /// Returns true for a public address, given by its four or sixteen bytes.
    package static func isPublic(_ address: [UInt8]) -> Bool {
        address.count == 4
            ? Self.isPublic(v4: address.reduce(0) { $0 << 8 | UInt32($1) }) : Self.isPublic(v6: address)
    }

    /// Returns true for a public IPv4 address.
    package static func isPublic(v4 address: UInt32) -> Bool {
        !Self.blocks.contains { address >> (32 - $0.bits) == $0.first >> (32 - $0.bits) }
    }

    /// Returns true for a public IPv6 address, given by its sixteen bytes.
    ///
    /// Addresses that embed one of IPv4 (mapped, 6to4, Teredo) are refused: they would lead around the other check. One
    /// for translation (64:ff9b::/96, RFC 6052) is as public as the one that it embeds.
    package static func isPublic(v6 address: [UInt8]) -> Bool {
        precondition(address.count == 16)
        if address.starts(with: [0x00, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0]) {
            return Self.isPublic(v4: address[12...].reduce(0) { $0 << 8 | UInt32($1) })
        }
        guard address[0] & 0xe0 == 0x20 else { return false }
        let isSpecial =
            address.starts(with: [0x20, 0x01]) && (address[2] & 0xfe == 0 || address[2...3] == [0x0d, 0xb8])
            || address.starts(with: [0x20, 0x02]) || address.starts(with: [0x3f, 0xff]) && address[2] & 0xf0 == 0
        return !isSpecial
    }
}
