import ApusCore
import ApusInstallation
import ApusMessages
import ApusStreams
import Testing

private let path = "/v1/apps/shop/sends"

/// Publishes over HTTP and into Redis what is the same but for its id and its key.
@Suite struct SendKeyTests {
    private static func command(id: String, key: String = "") -> SendCommand {
        var notification = Notification()
        notification.title = "Swifts"
        var command = SendCommand(app: "shop", target: .topic("news"), notification: notification)
        command.id = id
        command.idempotencyKey = key
        return command
    }

    private static func body(_ name: String, _ value: String) -> String {
        #"{"\#(name)":"\#(value)","target":{"topic":"news"},"notification":{"title":"Swifts"}}"#
    }

    /// Publishes over HTTP; the id of the send, and whether it was there before.
    private static func publish(_ body: String, _ fixture: Fixture) async throws -> (send: String?, isDuplicate: Bool) {
        let answer = try await fixture.ask("POST", path, body, key: Fixture.publishKey)
        #expect(answer.status == 202, "\(answer.text)")
        return (try member(answer, "send")?.string, try member(answer, "duplicate") == true)
    }

    @Test func `A key that is given over HTTP is apart from that of a command in Redis, and each finds its own send`()
        async throws
    {
        try await Fixture.with { fixture in
            let mailboxes = fixture.installation.streams.mailboxes
            let overHTTP = try await Self.publish(Self.body("idempotency_key", "order-17"), fixture)
            #expect(!overHTTP.isDuplicate)
            let written = try await mailboxes.publish(Self.command(id: "written", key: "order-17"), lane: .bulk)
            if case .new(let send, _) = written { #expect(send == "written") } else { Issue.record("\(written)") }
            let again = try await Self.publish(Self.body("idempotency_key", "order-17"), fixture)
            #expect(again.isDuplicate)
            #expect(again.send == overHTTP.send)
            let rewritten = try await mailboxes.publish(Self.command(id: "other", key: "order-17"), lane: .bulk)
            #expect(rewritten == .duplicate(send: "written"))
        }
    }

    @Test func `An id is the same send, whether it comes over HTTP first or into Redis`() async throws {
        try await Fixture.with { fixture in
            let mailboxes = fixture.installation.streams.mailboxes
            let overHTTP = try await Self.publish(Self.body("id", "order-17"), fixture)
            #expect(!overHTTP.isDuplicate)
            let written = try await mailboxes.publish(Self.command(id: "order-17"), lane: .bulk)
            #expect(written == .duplicate(send: "order-17"))
            _ = try await mailboxes.publish(Self.command(id: "order-18"), lane: .bulk)
            let second = try await Self.publish(Self.body("id", "order-18"), fixture)
            #expect(second.isDuplicate)
            #expect(second.send == "order-18")
        }
    }
}
