internal import Glibc

/// Raises the limit of files that this process may have open at once, and divides it. Connections are files, too.
package enum OpenFileLimit {
    /// The files that a service opens beside its clients' connections: those of the admin endpoints, and what it reads.
    static let reserve = 256
    /// The files of each event loop: three of its own, and connections to the servers of Redis.
    static let reservePerEventLoop = 32

    // Its type is a number with one C library and an enumeration with another.
    private static let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)

    private static var limits: rlimit? {
        var limits = rlimit()
        return unsafe getrlimit(Self.resource, &limits) == 0 ? limits : nil
    }

    /// The limit in force, which is the soft one; nil when it cannot be read.
    package static var current: Int? { self.limits.map { Int(clamping: $0.rlim_cur) } }

    /// Raises the soft limit to the hard one. The soft one is 1,024 mostly, for programs that call select(2).
    package static func raise() {
        guard var limits = self.limits, limits.rlim_cur < limits.rlim_max else { return }
        limits.rlim_cur = limits.rlim_max
        // The former limit is kept when the system refuses.
        _ = unsafe setrlimit(Self.resource, &limits)
    }

    /// Returns how many of the connections that a service may have leave room for its other files. It is pure.
    ///
    /// - Parameters:
    ///   - wanted: the connections that the settings allow.
    ///   - limit: the limit of open files.
    ///   - eventLoops: the number of event loops.
    /// - Returns: at least a quarter of the limit, where so many are wanted.
    package static func connections(_ wanted: Int, limit: Int, eventLoops: Int) -> Int {
        let others = Self.reserve + Self.reservePerEventLoop * eventLoops
        return min(wanted, max(limit - others, limit / 4, 1))
    }
}
