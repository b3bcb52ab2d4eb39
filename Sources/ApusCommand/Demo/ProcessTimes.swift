internal import FoundationEssentials
internal import Glibc

/// What a process has used, from `/proc/<pid>/stat`; see proc(5).
package enum ProcessTimes {
    /// Processor seconds of all its threads, in user and kernel mode; nil: there is no such process.
    package static func processorSeconds(of process: Int32) -> Double? {
        guard let data = FileManager.default.contents(atPath: "/proc/\(process)/stat") else { return nil }
        return Self.processorSeconds(
            stat: String(decoding: data, as: UTF8.self),
            ticksPerSecond: sysconf(Int32(_SC_CLK_TCK))
        )
    }

    /// The same, from the text: fields 14 and 15, counted behind the name, which may hold spaces and brackets.
    package static func processorSeconds(stat: String, ticksPerSecond: Int) -> Double? {
        guard let end = stat.lastIndex(of: ")"), ticksPerSecond > 0 else { return nil }
        let fields = stat[stat.index(after: end)...].split(separator: " ")
        guard fields.count > 12, let user = Double(fields[11]), let kernel = Double(fields[12]) else { return nil }
        return (user + kernel) / Double(ticksPerSecond)
    }
}
