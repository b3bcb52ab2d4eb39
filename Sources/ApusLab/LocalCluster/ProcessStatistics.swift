internal import FoundationEssentials
internal import Glibc

/// Reads processor time and memory of a process from /proc; see proc(5).
package enum ProcessStatistics {
    /// Returns the processor seconds of all threads of a process, in user and kernel mode; nil when there is no such process.
    package static func processorSeconds(of process: Int32) -> Double? {
        guard let data = FileManager.default.contents(atPath: "/proc/\(process)/stat") else { return nil }
        return Self.processorSeconds(
            stat: String(decoding: data, as: UTF8.self),
            ticksPerSecond: sysconf(Int32(_SC_CLK_TCK))
        )
    }

    /// Parses the processor seconds: fields 14 and 15, counted behind the name, which may hold spaces and brackets.
    package static func processorSeconds(stat: String, ticksPerSecond: Int) -> Double? {
        guard let end = stat.lastIndex(of: ")"), ticksPerSecond > 0 else { return nil }
        let fields = stat[stat.index(after: end)...].split(separator: " ")
        guard fields.count > 12, let user = Double(fields[11]), let kernel = Double(fields[12]) else { return nil }
        return (user + kernel) / Double(ticksPerSecond)
    }

    /// Returns the resident bytes of a process; nil when there is no such process.
    package static func residentBytes(of process: Int32) -> Int64? {
        guard let data = FileManager.default.contents(atPath: "/proc/\(process)/statm") else { return nil }
        return Self.residentBytes(statm: String(decoding: data, as: UTF8.self), page: sysconf(Int32(_SC_PAGESIZE)))
    }

    /// Parses the resident bytes: the second field, in pages.
    package static func residentBytes(statm: String, page: Int) -> Int64? {
        let fields = statm.split(separator: " ")
        guard fields.count > 1, let pages = Int64(fields[1]) else { return nil }
        return pages * Int64(page)
    }

    /// Returns the seconds that the calling thread ran, and that it was ready and waited for a processor; nil when the
    /// kernel does not report them.
    package static func threadSeconds() -> (ran: Double, waited: Double)? {
        guard let data = FileManager.default.contents(atPath: "/proc/thread-self/schedstat") else { return nil }
        return Self.threadSeconds(schedstat: String(decoding: data, as: UTF8.self))
    }

    /// Parses the thread's seconds: the first two fields, in nanoseconds.
    package static func threadSeconds(schedstat: String) -> (ran: Double, waited: Double)? {
        let fields = schedstat.split { $0.isWhitespace }
        guard fields.count > 1, let ran = Double(fields[0]), let waited = Double(fields[1]) else { return nil }
        return (ran / 1e9, waited / 1e9)
    }
}
