internal import CMalloc
internal import ServiceLifecycle

/// Decides when memory that was freed is given back to the system.
///
/// The allocator keeps what is freed between blocks in use: a process would stand for hours at the size of its worst minute. Giving it back costs
/// time, and so does taking it again, so that is done in quiet times and only for an amount that matters.
package struct MemoryTrimDecision {
    /// The bytes that are worth giving back.
    static let bytesMin: Int64 = 16 << 20
    /// The share of one core below which the process is quiet.
    static let quietShare = 0.2

    /// The resident bytes, and the free ones, that were left last time; nil before that.
    private var left: (resident: Int64, free: Int64)?

    /// A decision for a process that gave nothing back yet.
    package init() {}

    /// Returns true when memory is to be given back now.
    ///
    /// - Parameters:
    ///   - resident: the resident bytes of the process.
    ///   - free: the bytes that the allocator holds and nobody uses. Those given back before may be among them.
    ///   - busyShare: the processor time per time since the last decision.
    package func mustTrim(resident: Int64, free: Int64, busyShare: Double) -> Bool {
        guard busyShare < Self.quietShare, free >= Self.bytesMin else { return false }
        guard let left else { return true }
        // Memory that is taken and freed again makes the process grow; memory that was in use last time, and is freed, does not.
        return resident - left.resident >= Self.bytesMin || free - left.free >= Self.bytesMin
    }

    /// Records what was left.
    package mutating func trimmed(resident: Int64, free: Int64) { self.left = (resident, free) }
}

/// Gives freed memory back to the system in quiet times.
struct MemoryTrimmer: Service {
    /// The time between two decisions.
    static let interval = Duration.seconds(10)

    func run() async throws {
        await cancelWhenGracefulShutdown {
            var decision = MemoryTrimDecision()
            var (busy, since) = (CPUClock.processNanoseconds(), ContinuousClock.now)
            while (try? await Task.sleep(for: Self.interval)) != nil {
                let (busyNow, now) = (CPUClock.processNanoseconds(), ContinuousClock.now)
                let share = Double(busyNow - busy) / ((now - since) / .nanoseconds(1))
                (busy, since) = (busyNow, now)
                guard let resident = ProcessReader.residentBytes(),
                    decision.mustTrim(resident: resident, free: Self.freeBytes(), busyShare: share)
                else { continue }
                Self.trim()
                decision.trimmed(resident: ProcessReader.residentBytes() ?? resident, free: Self.freeBytes())
            }
        }
    }

    /// Returns the bytes that the allocator holds and nobody uses.
    static func freeBytes() -> Int64 { Int64(mallinfo2().fordblks) }

    /// Gives whole free pages back.
    static func trim() { malloc_trim(0) }
}
