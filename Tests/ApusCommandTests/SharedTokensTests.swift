import ApusCommand
import ApusCore
import ApusInstallation
import ApusProviders
import ApusRedis
import ApusTerminal
import ApusTestKit
import Testing

/// The provider tokens that all dispatchers share, in a real Redis.
@Suite struct SharedTokensTests {
    private static let key = "apus:jwt:DEF123GHIJ:ABC123DEFG"

    /// Twenty write at once; the tokens that they go on with.
    private func race(_ tokens: SharedTokens, after seen: String?, round: String) async -> Set<String> {
        await withTaskGroup(of: String.self) { group in
            for number in 0..<20 {
                group.addTask {
                    let own = "\(round)-\(number)"
                    return await tokens.write(Self.key, own, after: seen, milliseconds: 600_000) ?? own
                }
            }
            var used: Set<String> = []
            for await token in group { used.insert(token) }
            return used
        }
    }

    @Test func `Of several writers at once one stores its token, and all use it`() async throws {
        try await RedisServer.with { server in
            try await RedisAccess.withClient(server.url) { client in
                let tokens = SharedTokens(client: client)
                #expect(await tokens.read(Self.key) == nil)
                let first = await self.race(tokens, after: nil, round: "first")
                #expect(first.count == 1)
                let held = await tokens.read(Self.key)
                #expect(first == [held])
                // That one has expired.
                let second = await self.race(tokens, after: held, round: "second")
                #expect(second.count == 1 && second != first)
                #expect(second == [await tokens.read(Self.key)])
                // A caller that comes late, having seen no token or the old one, gets the current one.
                #expect(await tokens.write(Self.key, "late", after: nil, milliseconds: 1_000) == second.first)
                #expect(await tokens.write(Self.key, "late", after: held, milliseconds: 1_000) == second.first)
            }
        }
    }
}
