import ApusService
import Testing

@Suite struct ProcessReaderTests {
    @Test func aProgramsNameMayHoldAnything() throws {
        let text =
            "42 (a) b (c) S 1 42 42 0 -1 4194560 100 0 0 0 7 3 0 0 20 0 9 0 12345 223346688 5120 18446744073709551615"
        let stat = try #require(ProcessReader.Stat(text))
        #expect(stat.threads == 9)
        #expect(stat.virtualBytes == 223_346_688)
        #expect(stat.residentPages == 5_120)
    }

    @Test(arguments: ["", "42 (a", "42 (a) S 1 2 3", "42 (a) S x x x x x x x x x x x x x x x x x x x x x x x"])
    func whatIsNotAStatusIsNothing(text: String) {
        #expect(ProcessReader.Stat(text) == nil)
    }

    @Test func theSoftLimitCounts() {
        let limits = """
            Limit                     Soft Limit           Hard Limit           Units
            Max processes             127235               127235               processes
            Max open files            1024                 524288               files
            """
        #expect(ProcessReader.maxDescriptors(limits) == 1_024)
        #expect(ProcessReader.maxDescriptors("Max open files            unlimited            unlimited  files") == nil)
        #expect(ProcessReader.maxDescriptors("") == nil)
    }
}
