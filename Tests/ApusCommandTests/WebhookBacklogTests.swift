import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStreams
import ApusTerminal
import ApusTestKit
import Testing

@testable import ApusCommand

/// Tests what `apus lag` says of receipts that the webhook has not taken.
@Suite struct WebhookBacklogTests {
    @Test func `Receipts that were not taken are counted while somebody posts them, with the age of the oldest`()
        async throws
    {
        try await RedisServer.with { server in
            try await RedisAccess.withClient(server.url) { client in
                _ = try await InstallationSetup(client).perform(queueShards: 2, devicePartitions: 4)
            }
            try await RedisAccess.withInstallation(server.url) { installation in
                let streams = installation.streams
                let none = try await WebhookBacklog(streams)
                #expect(none.shards == 0 && none.waiting == 0 && none.oldestMilliseconds == nil && none.concerns == [])
                let keys = streams.keys(shard: 1)
                for number in 0..<3 {
                    let receipt = SendReceipt(id: "final:s\(number)", send: "s\(number)", app: "shop", kind: .final)
                    try await streams.outcomes.write(receipt, replyTo: "", tag: keys.tag)
                }
                func send(_ words: RedisArgument...) async throws -> RESPReply {
                    try await streams.client.send(RedisCommand("XGROUP", words), on: keys.tag)
                }
                let group = RedisArgument.text(StreamGroup.webhooks)
                _ = try await send("CREATE", .text(keys.receipts), group, "0")
                #expect(
                    try await WebhookBacklog(streams).shards == 0,
                    "nobody posts: the webhook is not configured any more"
                )
                _ = try await send("CREATECONSUMER", .text(keys.receipts), group, "me")
                let unread = try await WebhookBacklog(streams)
                #expect(unread.shards == 1 && unread.waiting == 3 && unread.oldestMilliseconds != nil)
                let read: [RedisArgument] = ["GROUP", group, "me", "COUNT", 2, "STREAMS", .text(keys.receipts), ">"]
                _ = try await streams.client.send(RedisCommand("XREADGROUP", read), on: keys.tag)
                let held = try await WebhookBacklog(streams)
                #expect(held.waiting == 3 && held.oldestMilliseconds != nil)
                #expect(held.json["waiting"]?.int64 == 3)
            }
        }
    }

    @Test func `Receipts in the hands of a sender that has long been silent count no more`() async throws {
        try await RedisServer.with { server in
            try await RedisAccess.withClient(server.url) { client in
                _ = try await InstallationSetup(client).perform(queueShards: 1, devicePartitions: 4)
            }
            try await RedisAccess.withInstallation(server.url) { installation in
                let streams = installation.streams
                let keys = streams.keys(shard: 0)
                let receipt = SendReceipt(id: "final:s", send: "s", app: "shop", kind: .final)
                try await streams.outcomes.write(receipt, replyTo: "", tag: keys.tag)
                let group = RedisArgument.text(StreamGroup.webhooks)
                let create: [RedisArgument] = ["CREATE", .text(keys.receipts), group, "0"]
                _ = try await streams.client.send(RedisCommand("XGROUP", create), on: keys.tag)
                let read: [RedisArgument] = ["GROUP", group, "me", "COUNT", 1, "STREAMS", .text(keys.receipts), ">"]
                _ = try await streams.client.send(RedisCommand("XREADGROUP", read), on: keys.tag)
                let fresh = try await WebhookBacklog(streams)
                #expect(fresh.shards == 1 && fresh.waiting == 1)
                // The process was killed, or the webhook was taken out of the configuration: its consumer is idle from now on.
                try await eventually("the consumer is idle for longer than the limit") {
                    let silent = try await WebhookBacklog(streams, senderIdleMillisecondsMax: 0)
                    return silent.shards == 0 && silent.waiting == 0 && silent.findings.isEmpty
                }
            }
        }
    }

    @Test func `A sentence is due when a receipt waits for longer than the first tries take`() {
        let young = WebhookBacklog(shards: 1, waiting: 5, oldestMilliseconds: WebhookBacklog.concernMilliseconds - 1)
        #expect(young.concerns == [])
        let old = WebhookBacklog(shards: 1, waiting: 1_204, oldestMilliseconds: 300_000)
        #expect(
            old.concerns.first?.hasPrefix(
                "webhook: 1,204 receipts wait, for 5m00s: feedback.webhook.url does not take them"
            ) == true
        )
        #expect(young.findings == [] && old.findings.map(\.verdict) == [.warn])
        let older = WebhookBacklog(shards: 1, waiting: 1_204, oldestMilliseconds: 300_001)
        #expect(older.findings.map(\.verdict) == [.fail] && older.findings[0].subject == "webhook")
        let one = WebhookBacklog(shards: 1, waiting: 1, oldestMilliseconds: 60_000)
        #expect(one.concerns.first?.hasPrefix("webhook: 1 receipt waits, for 1m00s") == true)
    }
}
