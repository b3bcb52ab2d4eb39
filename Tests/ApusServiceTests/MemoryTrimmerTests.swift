import Testing

@testable import ApusService

@Suite struct MemoryTrimmerTests {
    private let mebibyte = Int64(1 << 20)

    @Test func memoryIsGivenBackInQuietTimesWhenItIsWorthIt() {
        var decision = MemoryTrimDecision()
        #expect(!decision.mustTrim(resident: 40 * self.mebibyte, free: 15 * self.mebibyte, busyShare: 0))
        #expect(!decision.mustTrim(resident: 900 * self.mebibyte, free: 800 * self.mebibyte, busyShare: 0.2))
        #expect(decision.mustTrim(resident: 900 * self.mebibyte, free: 800 * self.mebibyte, busyShare: 0.19))
        decision.trimmed(resident: 100 * self.mebibyte, free: 800 * self.mebibyte)
        // Memory that was given back still counts as free.
        #expect(!decision.mustTrim(resident: 100 * self.mebibyte, free: 800 * self.mebibyte, busyShare: 0))
        #expect(!decision.mustTrim(resident: 115 * self.mebibyte, free: 785 * self.mebibyte, busyShare: 0))
        #expect(decision.mustTrim(resident: 116 * self.mebibyte, free: 784 * self.mebibyte, busyShare: 0))
        // So does memory that was in use last time, when it is freed: the process does not grow by it.
        #expect(!decision.mustTrim(resident: 100 * self.mebibyte, free: 815 * self.mebibyte, busyShare: 0))
        #expect(decision.mustTrim(resident: 100 * self.mebibyte, free: 816 * self.mebibyte, busyShare: 0))
    }

    @Test func freePagesBetweenUsedBlocksAreGivenBack() throws {
        let (blockBytes, count) = (4_096, 16_384)
        var blocks = (0..<count).map { _ in [UInt8](repeating: 1, count: blockBytes) }
        // Every hundredth stays, so that the allocator cannot give the end back by itself.
        for index in blocks.indices where !index.isMultiple(of: 100) { blocks[index] = [] }
        let before = try #require(ProcessReader.residentBytes())
        #expect(MemoryTrimmer.freeBytes() > Int64(blockBytes * count / 2))
        MemoryTrimmer.trim()
        let after = try #require(ProcessReader.residentBytes())
        #expect(before - after > Int64(blockBytes * count / 4), "\(before) \(after)")
        #expect(blocks.count == count)
    }
}
