import ApusService
import Glibc
import Testing

@Suite struct OpenFileLimitTests {
    @Test func `Connections leave room for other files, and have a quarter at least`() {
        func connections(_ wanted: Int, _ limit: Int, _ eventLoops: Int = 2) -> Int {
            OpenFileLimit.connections(wanted, limit: limit, eventLoops: eventLoops)
        }
        #expect(connections(10_000, 65_536) == 10_000)
        #expect(connections(10_000, 10_320) == 10_000 && connections(10_000, 10_319) == 9_999)
        #expect(connections(10_000, 1_024) == 704 && connections(700, 1_024) == 700)
        #expect(connections(10_000, 1_024, 64) == 256)
        #expect(connections(10_000, 3) == 1)
        #expect(connections(1_000_000, .max) == 1_000_000)
    }

    @Test func `The soft limit is raised to the hard one`() throws {
        let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        var limits = rlimit()
        try #require(getrlimit(resource, &limits) == 0)
        // One less than the most does no other test any harm.
        limits.rlim_cur = limits.rlim_max - 1
        try #require(setrlimit(resource, &limits) == 0)
        #expect(OpenFileLimit.current == Int(clamping: limits.rlim_max - 1))
        OpenFileLimit.raise()
        #expect(OpenFileLimit.current == Int(clamping: limits.rlim_max))
    }
}
