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

/// What the figures were measured on.
package struct Machine: Hashable, Sendable {
    /// The processor's name.
    package var processor: String
    /// Cores that may be used.
    package var cores: Int
    /// Bytes of memory.
    package var memoryBytes: Int64
    /// The kernel's release.
    package var kernel: String

    /// This one.
    package static var current: Machine {
        func text(_ path: String) -> String {
            String(decoding: FileManager.default.contents(atPath: path) ?? Data(), as: UTF8.self)
        }
        let model = text("/proc/cpuinfo").split(separator: "\n").first { $0.hasPrefix("model name") }
        let name = model?.split(separator: ":").last?.drop { $0 == " " }
        return Machine(
            processor: name.map(String.init) ?? "unknown",
            cores: sysconf(Int32(_SC_NPROCESSORS_ONLN)),
            memoryBytes: Int64(sysconf(Int32(_SC_PHYS_PAGES))) * Int64(sysconf(Int32(_SC_PAGESIZE))),
            kernel: text("/proc/sys/kernel/osrelease").split(separator: "\n").first.map(String.init) ?? "unknown",
        )
    }
}
