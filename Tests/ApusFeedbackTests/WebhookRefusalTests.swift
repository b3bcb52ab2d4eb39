import ApusCore
import ApusMessages
import ApusMetrics
import ApusRedis
import ApusStreams
import ApusTestKit
import Synchronization
import Testing

@testable import ApusFeedback

/// Receivers that refuse a receipt, and receivers that refuse all of them for a while.
@Suite struct WebhookRefusalTests {
    /// A receiver that refuses these receipts, whatever comes with them.
    private static func receiver(refusing sends: [String], by status: Int = 400) async throws -> WebhookReceiver {
        try await WebhookReceiver.answering { request in
            let body = String(decoding: request.body, as: UTF8.self)
            return .status(sends.contains { body.contains("\"final:\($0)\"") } ? status : 200)
        }
    }

    private static func sends(_ receiver: WebhookReceiver) throws -> [[String]] {
        try receiver.requests.map { try WebhookFixture.ids($0).map { String($0.dropFirst("final:".count)) } }
    }

    @Test(arguments: [400, 409, 413, 422])
    func `Of receipts that were posted together, only those that the receiver refuses become dead letters`(
        _ status: Int
    ) async throws {
        try await WebhookFixture.with { setup in
            try await setup.write(0..<7)
            let receiver = try await Self.receiver(refusing: ["s2", "s3"], by: status)
            let sender = try setup.sender(to: receiver.port, batch: 5, attemptsMax: 1_000)
            while try await sender.step() {}
            let letters = try await setup.deadLetters()
            #expect(letters.map(\.send) == ["s2", "s3"])
            #expect(letters.allSatisfy { $0.deliveries == UInt32(WebhookSender.refusalsOfOneMax) })
            #expect(letters.allSatisfy { $0.problem.detail.contains("\(status)") })
            // Together, then one by one and in their order; the next batch goes together again.
            let refused = ["s2", "s3"].flatMap { Array(repeating: [$0], count: WebhookSender.refusalsOfOneMax) }
            let sends = [["s0", "s1", "s2", "s3", "s4"], ["s0"], ["s1"]] + refused + [["s4"], ["s5", "s6"]]
            #expect(try Self.sends(receiver) == sends)
            #expect(try await setup.pending() == 0)
            await receiver.stop()
        }
    }

    @Test func `Where the receiver has taken nothing of a batch, a receipt that it refuses has more tries`()
        async throws
    {
        try await WebhookFixture.with { setup in
            try await setup.write(0..<4)
            let receiver = try await Self.receiver(refusing: ["s0", "s1", "s3"])
            let sender = try setup.sender(to: receiver.port, attemptsMax: 1_000)
            while try await sender.step() {}
            let letters = try await setup.deadLetters()
            #expect(letters.map(\.send) == ["s0", "s1", "s3"])
            let (few, many) = (UInt32(WebhookSender.refusalsOfOneMax), UInt32(WebhookSender.refusalsMax))
            #expect(letters.map(\.deliveries) == [many, many, few])
            #expect(try Self.sends(receiver).filter { $0 == ["s2"] }.count == 1)
            #expect(try await setup.pending() == 0)
            await receiver.stop()
        }
    }

    @Test func `A receiver that breaks within a batch loses few receipts quickly, and the next ones have more tries`()
        async throws
    {
        try await WebhookFixture.with { setup in
            try await setup.write(0..<8)
            let refused = ["s1", "s2", "s3", "s4", "s5", "s7"]
            let receiver = try await Self.receiver(refusing: refused)
            let sender = try setup.sender(to: receiver.port, attemptsMax: 1_000)
            while try await sender.step() {}
            let letters = try await setup.deadLetters()
            #expect(letters.map(\.send) == refused)
            let (few, many) = (UInt32(WebhookSender.refusalsOfOneMax), UInt32(WebhookSender.refusalsMax))
            // It has taken s0 and s6.
            #expect(letters.map(\.deliveries) == [few, few, few, many, many, few])
            #expect(try await setup.pending() == 0)
            await receiver.stop()
        }
    }

    @Test func `Receipts that are too large together are taken one by one`() async throws {
        try await WebhookFixture.with { setup in
            try await setup.write(0..<4)
            let receiver = try await WebhookReceiver.answering { .status($0.body.count > 300 ? 413 : 200) }
            let sender = try setup.sender(to: receiver.port, attemptsMax: 1_000, lease: .seconds(3_600))
            while try await sender.step() {}
            let ids = try receiver.requests.map { try WebhookFixture.ids($0) }
            #expect(ids.map(\.count) == [4, 1, 1, 1, 1])
            #expect(ids.dropFirst().flatMap(\.self) == ids.first)
            #expect(try await setup.deadLetters() == [])
            #expect(try await setup.pending() == 0)
            // Their leases are far from over, so none was renewed.
            let statistics = try await setup.client.send(RedisCommand("INFO", "commandstats"), on: setup.keys.tag)
            let text = try #require(statistics.root.string)
            #expect(text.contains("cmdstat_xack:") && !text.contains("cmdstat_xclaim:"))
            await receiver.stop()
        }
    }

    @Test func `When one of a batch is gone, the others come before what is newer, at once and in their order`()
        async throws
    {
        try await WebhookFixture.with { setup in
            try await setup.write(0..<3)
            let isRepaired = Mutex(false)
            let receiver = try await WebhookReceiver.start { _ in .status(isRepaired.withLock { $0 } ? 200 : 503) }
            // The lease is longer than the test: only what is given back can be taken again.
            let sender = try setup.sender(
                to: receiver.port,
                batch: 3,
                attemptsMax: 1_000_000,
                lease: .seconds(3_600)
            )
            let step = Task { try await sender.step() }
            try await eventually("all are in hand") { try await setup.pending() == 3 }
            try await setup.write(3..<4)
            let trim = RedisCommand("XTRIM", .text(setup.keys.receipts), "MAXLEN", 3)
            _ = try await setup.client.send(trim, on: setup.keys.tag)
            #expect(try await step.value)
            isRepaired.withLock { $0 = true }
            while try await sender.step() {}
            #expect(try Self.sends(receiver).suffix(2) == [["s1", "s2"], ["s3"]])
            #expect(try await setup.pending() == 0)
            #expect(try await setup.deadLetters() == [])
            await receiver.stop()
        }
    }

    @Test func `Receipts at one of which the receiver fails are posted one by one, and that one is given up`()
        async throws
    {
        try await WebhookFixture.with { setup in
            try await setup.write(0..<7)
            let receiver = try await Self.receiver(refusing: ["s2"], by: 500)
            let sender = try setup.sender(to: receiver.port, batch: 5, attemptsMax: 1_000)
            while try await sender.step() {}
            let letters = try await setup.deadLetters()
            #expect(letters.map(\.send) == ["s2"])
            #expect(letters.map(\.deliveries) == [UInt32(WebhookSender.failuresOfOneMax)])
            let together = Array(
                repeating: ["s0", "s1", "s2", "s3", "s4"],
                count: WebhookSender.failuresTogetherMax
            )
            let failed = Array(repeating: ["s2"], count: WebhookSender.failuresOfOneMax)
            #expect(
                try Self.sends(receiver) == together + [["s0"], ["s1"]] + failed + [["s3"], ["s4"], ["s5", "s6"]]
            )
            #expect(try await setup.pending() == 0)
            await receiver.stop()
        }
    }

    @Test func `A receiver that fails at everything for a while loses nothing, and gets all in order`() async throws {
        try await WebhookFixture.with { setup in
            try await setup.write(0..<4)
            let failures = WebhookSender.failuresTogetherMax + 2 * WebhookSender.failuresOfOneMax
            let receiver = try await WebhookReceiver.start { .status($0 < failures ? 500 : 200) }
            let sender = try setup.sender(to: receiver.port, attemptsMax: 1_000)
            while try await sender.step() {}
            #expect(try await setup.deadLetters() == [])
            #expect(try Self.sends(receiver).dropFirst(failures) == [["s0"], ["s1"], ["s2"], ["s3"]])
            #expect(try await setup.pending() == 0)
            await receiver.stop()
        }
    }

    @Test func `A receipt at which the receiver fails is given up once the receiver has taken one of another shard`()
        async throws
    {
        try await WebhookFixture.with { setup in
            try await setup.write(0..<2)
            let receiver = try await Self.receiver(refusing: ["s0"], by: 500)
            var observed: MetricRegistry?
            let sender = try setup.sender(to: receiver.port, batch: 1, attemptsMax: 1_000_000) { observed = $0 }
            let registry = try #require(observed)
            func isFailing() async -> Bool {
                let text = String(decoding: await registry.exposition(.prometheusText), as: UTF8.self)
                return !text.contains("\napus_feedback_webhook_failing_since_timestamp_seconds 0\n")
            }
            let work = Task { while try await sender.step() {} }
            let enough = 2 * WebhookSender.failuresOfOneMax
            try await eventually("it is tried again and again") { receiver.requests.count > enough }
            #expect(await isFailing())
            #expect(try await setup.deadLetters() == [])
            sender.progress.recordTaken()
            try await work.value
            #expect(try await setup.deadLetters().map(\.send) == ["s0"])
            #expect(try Self.sends(receiver).last == ["s1"])
            #expect(await !isFailing())
            #expect(try await setup.pending() == 0)
            await receiver.stop()
        }
    }

    @Test
    func `A receiver that took one of another shard, and fails at that shard's others since, loses one after long`()
        async throws
    {
        try await WebhookFixture.with { setup in
            try await setup.write(0..<2)
            let receiver = try await Self.receiver(refusing: ["s0"], by: 500)
            let sender = try setup.sender(to: receiver.port, batch: 1, attemptsMax: 1_000_000)
            let work = Task { while try await sender.step() {} }
            let enough = 2 * WebhookSender.failuresOfOneMax
            try await eventually("it is tried again and again") { receiver.requests.count > enough }
            sender.progress.setFailing(since: SystemClock().now(), shard: sender.shard + 1)
            sender.progress.recordTaken()
            let count = receiver.requests.count
            try await eventually("it is tried again and again") { receiver.requests.count > count + enough }
            #expect(try await setup.deadLetters() == [])
            // The other shard may stand at a receipt of its own at which the receiver fails, like this one.
            try await work.value
            #expect(try await setup.deadLetters().map(\.send) == ["s0"])
            let tries = Int(WebhookSender.standingTries) * WebhookSender.failuresOfOneMax
            #expect(receiver.requests.count > count + tries - 2 * Int(WebhookSender.standingTries))
            #expect(try Self.sends(receiver).last == ["s1"])
            await receiver.stop()
        }
    }

    @Test(arguments: [301, 307, 401, 403, 404, 405, 410])
    func `An answer that concerns every receipt is no refusal, however often it comes`(_ status: Int) async throws {
        try await WebhookFixture.with { setup in
            try await setup.write(0..<3)
            let refusals = 3 * WebhookSender.refusalsMax
            let receiver = try await WebhookReceiver.start { .status($0 < refusals ? status : 200) }
            let sender = try setup.sender(to: receiver.port, attemptsMax: 1_000)
            while try await sender.step() {}
            let ids = try receiver.requests.map { try WebhookFixture.ids($0) }
            #expect(ids == Array(repeating: ["final:s0", "final:s1", "final:s2"], count: refusals + 1))
            #expect(Set(receiver.requests.map(\.body)).count == 1)
            #expect(try await setup.deadLetters() == [])
            #expect(try await setup.pending() == 0)
            await receiver.stop()
        }
    }
}
