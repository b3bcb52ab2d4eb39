internal import Glibc
internal import Synchronization

/// Reserves a free port of the loopback: no other test takes it while this object exists, so a restarted server finds it free.
package final class ReservedPort: Sendable {
    /// The port's number.
    package let number: Int
    /// A socket whose abstract name stands for the port: on one machine a name can be bound only once, and it is released with its process.
    private let claim: Int32

    /// The range of ports, below the one for outgoing connections (32768 and up on Linux).
    private static let range: ClosedRange<UInt16> = 12_000...32_000
    private static let attemptsMax = 200

    /// Finds a free port and reserves it.
    package init() throws {
        for _ in 0..<Self.attemptsMax {
            let port = UInt16.random(in: Self.range)
            guard let claim = Self.claim(port) else { continue }
            guard Self.isFree(port) else {
                close(claim)
                continue
            }
            self.number = Int(port)
            self.claim = claim
            return
        }
        throw RedisServerError("there is no free port")
    }

    deinit { close(self.claim) }

    /// Binds the abstract name of a port (unix(7)); nil when another process has it.
    private static func claim(_ port: UInt16) -> Int32? {
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return nil }
        // The zero byte in front makes the name abstract: no file is left behind.
        let name = [0] + Array("apus-port-\(port)".utf8)
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: name) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + name.count)
        let code = unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe bind(descriptor, $0, length) }
        }
        guard code == 0 else {
            close(descriptor)
            return nil
        }
        return descriptor
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

/// Reserves ports of the loopback for the life of this process.
package enum FreePort {
    private static let kept = Mutex<[ReservedPort]>([])

    /// Returns a free port that no other test gets.
    package static func find() throws -> Int {
        let port = try ReservedPort()
        self.kept.withLock { $0.append(port) }
        return port.number
    }
}
