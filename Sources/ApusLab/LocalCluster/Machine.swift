package import ApusCore
internal import FoundationEssentials
internal import Glibc

/// The machine that figures were measured on.
package struct Machine: Hashable, Sendable {
    /// The processor's name.
    package var processor: String
    /// The number of usable cores.
    package var cores: Int
    /// The bytes of memory.
    package var memoryBytes: Int64
    /// The kernel's release.
    package var kernel: String

    /// The description as JSON.
    package var json: JSONObject {
        [
            "processor": .string(self.processor), "cores": .integer(self.cores),
            "memory_bytes": .integer(self.memoryBytes), "kernel": .string(self.kernel),
        ]
    }

    /// The running machine.
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
