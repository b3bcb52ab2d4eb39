import ApusCore
import ApusInstallation
import ApusMessages
import ApusPublisher
import ApusRedis
import ApusStreams
import ApusTestKit
import Testing

@Suite struct BackpressureTests {
    /// Writes so many entries that nobody reads.
    private func fill(_ server: RedisServer, _ mailbox: String, _ count: Int) async throws {
        let script = "for i = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'm', 'x') end return 1"
        _ = try await server.command("EVAL", .text(script), 1, .text(mailbox), .integer(count))
    }

    @Test func `A full mailbox accepts nothing and says when to come back`() async throws {
        try await RedisServer.with { server in
            try await PublisherFixture.initialize(server)
            try await PublisherFixture.with(Publisher(redis: server.url)) { publisher in
                let mailbox = publisher.installation.streams.home(app: "shop", "k").mailbox(.bulk)
                try await self.fill(server, mailbox, StreamLimits.mailboxEntriesMax - 1)
                _ = try await publisher.publish(PublisherFixture.command("last", key: "k"))
                let command = PublisherFixture.command("k")
                await #expect {
                    _ = try await publisher.publish(command)
                } throws: { error in
                    let error = error as? PublisherError
                    return error?.code == .mailboxFull && error?.retryAfter == .seconds(1)
                        && error?.message.contains("10000 commands wait") == true
                        && error?.message.contains("in 1.0 s") == true
                }
                // Nothing was kept of it: neither entry nor key.
                let length = try await server.command("XLEN", .text(mailbox)).root.integer
                #expect(length == 10_000)
                // The other lane has a mailbox of its own, and what stands already is still a duplicate.
                _ = try await publisher.publish(command, lane: .express)
                let again = try await publisher.publish(PublisherFixture.command("last", key: "k"))
                #expect(again.isDuplicate)
            }
        }
    }

    @Test func `A publisher with time waits for room, and one without fails in time`() async throws {
        try await RedisServer.with { server in
            try await PublisherFixture.initialize(server)
            try await PublisherFixture.with(Publisher(redis: server.url)) { publisher in
                let mailbox = publisher.installation.streams.home(app: "shop", "k").mailbox(.bulk)
                try await self.fill(server, mailbox, StreamLimits.mailboxEntriesMax)
                await #expect {
                    _ = try await publisher.publish(PublisherFixture.command("k"), within: .milliseconds(100))
                } throws: { error in
                    (error as? PublisherError)?.code == .mailboxFull
                }
                async let publication = publisher.publish(PublisherFixture.command("k"), within: .seconds(60))
                try await Task.sleep(for: .milliseconds(100))
                _ = try await server.command("XTRIM", .text(mailbox), "MAXLEN", 10)
                let found = try await publication
                #expect(found.send == "k" && !found.isDuplicate)
                let length = try await server.command("XLEN", .text(mailbox)).root.integer
                #expect(length == 11)
            }
        }
    }
}
