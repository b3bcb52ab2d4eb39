import ApusMessages
import ApusTestKit
import Testing

@testable import ApusFeedback

/// Receivers that refuse a receipt, and receivers that refuse all of them for a while.
@Suite struct WebhookRefusalTests {
    @Test(arguments: [400, 409, 413, 422])
    func `Of receipts that were posted together, only the one that the receiver refuses becomes a dead letter`(
        _ status: Int
    ) async throws {
        try await WebhookFixture.with { setup in
            try await setup.write(0..<7)
            let receiver = try await WebhookReceiver.answering { request in
                .status(String(decoding: request.body, as: UTF8.self).contains("\"final:s2\"") ? status : 200)
            }
            let sender = try setup.sender(to: receiver.port, batch: 5, attemptsMax: 1_000)
            while try await sender.step() {}
            let letters = try await setup.deadLetters()
            #expect(letters.map(\.send) == ["s2"])
            #expect(letters.map(\.deliveries) == [UInt32(WebhookSender.refusalsMax)])
            #expect(letters.first?.problem.detail.contains("\(status)") == true)
            // Together, then one by one and in their order; the next batch goes together again.
            let refused = Array(repeating: ["s2"], count: WebhookSender.refusalsMax)
            let sends = [["s0", "s1", "s2", "s3", "s4"], ["s0"], ["s1"]] + refused + [["s3"], ["s4"], ["s5", "s6"]]
            #expect(try receiver.requests.map { try WebhookFixture.ids($0) } == sends.map { $0.map { "final:\($0)" } })
            #expect(try await setup.pending() == 0)
            await receiver.stop()
        }
    }

    @Test func `Receipts that are too large together are taken one by one`() async throws {
        try await WebhookFixture.with { setup in
            try await setup.write(0..<4)
            let receiver = try await WebhookReceiver.answering { .status($0.body.count > 300 ? 413 : 200) }
            let sender = try setup.sender(to: receiver.port, attemptsMax: 1_000)
            while try await sender.step() {}
            let ids = try receiver.requests.map { try WebhookFixture.ids($0) }
            #expect(ids.map(\.count) == [4, 1, 1, 1, 1])
            #expect(ids.dropFirst().flatMap(\.self) == ids.first)
            #expect(try await setup.deadLetters() == [])
            #expect(try await setup.pending() == 0)
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
