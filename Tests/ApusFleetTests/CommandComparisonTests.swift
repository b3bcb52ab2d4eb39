import ApusFleet
import Testing

@Suite struct CommandComparisonTests {
    /// The seeds that have found a difference once.
    private static let found: [UInt64] = [298_372_756]

    @Test func `Random commands have the same replies and leave the same keys in the model and in Redis`() async throws
    {
        let first = UInt64.random(in: 0..<1_000_000_000)
        try await ReferenceServer.with(now: CommandComparison.start) { reference in
            for seed in Self.found + Array(first..<(first + 20)) {
                var comparison = CommandComparison(reference, RedisModel(seed: seed))
                try await comparison.run(seed: seed, commands: 500)
            }
        }
    }
}
