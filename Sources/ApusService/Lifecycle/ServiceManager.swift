internal import Glibc

/// Notifies systemd of the service's status by a datagram to the socket that `NOTIFY_SOCKET` names; without it, does nothing.
///
/// Source: sd_notify(3), "Standalone Implementations".
@safe struct ServiceManager: Sendable {
    /// The statuses of the service.
    enum Status: String {
        /// Every check of readiness passes.
        case ready = "READY=1"
        /// Every event loop responds.
        case alive = "WATCHDOG=1"
        /// The service makes its parts anew, and then is ready again.
        case reloading = "RELOADING=1"
        /// The service is stopping.
        case stopping = "STOPPING=1"
    }

    private let path: [UInt8]

    /// Reads the socket's path from the environment; nil without a service manager.
    init?(environment: [String: String]) {
        guard let name = environment["NOTIFY_SOCKET"], !name.isEmpty else { return nil }
        var path = Array(name.utf8)
        // An abstract socket's name begins with a zero byte, which environments cannot hold.
        if path[0] == 0x40 { path[0] = 0 }
        guard path[0] == 0 || path[0] == 0x2f, path.count < Self.pathBytesMax else { return nil }
        self.path = path
    }

    /// Sends a status. Errors are ignored: the service runs on without its manager.
    func notify(_ status: Status) {
        let descriptor = socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: self.path) }
        let length = socklen_t(MemoryLayout<sa_family_t>.size + self.path.count)
        let text = Array(status.rawValue.utf8)
        // The send never waits: a full socket must not hold up the service.
        let flags = Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)
        unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                _ = unsafe sendto(descriptor, text, text.count, flags, pointer, length)
            }
        }
    }

    /// The maximum bytes of a socket's path, including the terminating zero.
    private static let pathBytesMax = 108
}
