internal import ApusMetrics
internal import FoundationEssentials
internal import Glibc

/// Reads the kernel's figures for this process into the metrics. A figure that cannot be read stays absent.
package struct ProcessReader: Sendable {
    let shared: SharedMetrics
    let metrics: ProcessMetrics

    /// The values of /proc/self/stat that metrics show.
    package struct Stat: Hashable {
        /// The number of threads.
        package let threads: Int64
        /// The virtual memory in bytes.
        package let virtualBytes: Int64
        /// The resident memory in pages.
        package let residentPages: Int64
        /// The resident memory in bytes.
        package var residentBytes: Int64 { self.residentPages * Int64(sysconf(Int32(_SC_PAGESIZE))) }

        /// Parses the file's text; the program's name in parentheses may itself hold spaces and parentheses.
        ///
        /// Source: proc(5), fields 20, 23 and 24.
        package init?(_ text: String) {
            guard let nameEnd = text.lastIndex(of: ")") else { return nil }
            let fields = text[text.index(after: nameEnd)...].split(separator: " ")
            guard fields.count >= 22 else { return nil }
            guard let threads = Int64(fields[17]), let virtualBytes = Int64(fields[20]) else { return nil }
            guard let residentPages = Int64(fields[21]) else { return nil }
            self.threads = threads
            self.virtualBytes = virtualBytes
            self.residentPages = residentPages
        }
    }

    /// Returns the resident memory of the process in bytes; nil when it cannot be read.
    static func residentBytes() -> Int64? { Self.read("/proc/self/stat").flatMap(Stat.init)?.residentBytes }

    /// Returns the soft limit of open files from /proc/self/limits; nil when it is unlimited or missing.
    package static func maxDescriptors(_ limits: String) -> Int64? {
        let line = limits.split(separator: "\n").first { $0.hasPrefix("Max open files") }
        return line?.split(separator: " ").dropFirst(3).first.flatMap { Int64($0) }
    }

    /// Records the start time of the process: the time of this call, since /proc/stat may be hidden.
    func start(at time: Int64) { self.shared.set(self.metrics.startTime, to: time / 1_000_000) }

    func collect() {
        self.shared.mirror(CPUClock.processNanoseconds(), in: self.metrics.cpu)
        if let stat = Self.read("/proc/self/stat").flatMap(Stat.init) {
            self.shared.set(self.metrics.threads, to: stat.threads)
            self.shared.set(self.metrics.virtualMemory, to: stat.virtualBytes)
            self.shared.set(self.metrics.residentMemory, to: stat.residentBytes)
        }
        if let limit = Self.read("/proc/self/limits").flatMap(Self.maxDescriptors) {
            self.shared.set(self.metrics.maxDescriptors, to: limit)
        }
        if let names = try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd") {
            self.shared.set(self.metrics.openDescriptors, to: Int64(names.count))
        }
    }

    private static func read(_ path: String) -> String? {
        FileManager.default.contents(atPath: path).flatMap { String(data: $0, encoding: .utf8) }
    }
}

/// Reads processor time.
enum CPUClock {
    /// Returns the processor time of the calling thread.
    static func threadNanoseconds() -> Int64 { Self.read(CLOCK_THREAD_CPUTIME_ID) }

    /// Returns the processor time of the process.
    static func processNanoseconds() -> Int64 { Self.read(CLOCK_PROCESS_CPUTIME_ID) }

    private static func read(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        unsafe clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
