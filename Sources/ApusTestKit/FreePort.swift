internal import Glibc

/// Ports of the loopback that nobody listens on.
package enum FreePort {
    /// Below the range that outgoing connections take (32768 and up on Linux): a server that is started again finds its
    /// port still free.
    private static let range: ClosedRange<UInt16> = 12_000...32_000

    /// Finds one.
    package static func find() throws -> Int {
        for _ in 0..<200 {
            let port = UInt16.random(in: Self.range)
            if Self.isFree(port) { return Int(port) }
        }
        throw RedisServerError("no free port")
    }

    private static func isFree(_ port: UInt16) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let size = socklen_t(MemoryLayout<sockaddr_in>.size)
        return unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe bind(descriptor, $0, size) == 0 }
        }
    }
}
