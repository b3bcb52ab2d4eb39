import ApusCore
import ApusInstallation
import ApusMessages
import ApusPublisher
import ApusRedis
import ApusStreams
import ApusTestKit
import Testing

@Suite struct PublisherTests {
    private func withPublisher(
        _ body: (Publisher, RedisServer) async throws -> Void
    ) async throws {
        try await RedisServer.with { server in
            try await PublisherFixture.initialize(server)
            try await PublisherFixture.with(Publisher(redis: server.url)) { try await body($0, server) }
        }
    }

    private func command(_ title: String = "Hello", key: String = "") -> SendCommand {
        PublisherFixture.command(title: title, key: key)
    }

    private func mailbox(
        _ publisher: Publisher,
        _ server: RedisServer,
        _ home: String,
        _ lane: Lane
    ) async throws
        -> [SendCommand]
    {
        let key = publisher.installation.streams.home(app: "shop", home).mailbox(lane)
        let reply = try await server.command("XRANGE", .text(key), "-", "+")
        return try reply.root.children.map { entry in
            try SendCommand.decode(#require(entry.element(1)?.element(1)?.bytes))
        }
    }

    @Test func `A publication stands in its home mailbox, with an id and the time`() async throws {
        try await self.withPublisher { publisher, server in
            let publication = try await publisher.publish(self.command(), lane: .express)
            #expect(!publication.isDuplicate)
            let commands = try await self.mailbox(publisher, server, publication.send, .express)
            let command = try #require(commands.first)
            #expect(commands.count == 1)
            #expect(command.id == publication.send)
            #expect(command.publishedAtNanoseconds == publication.publishedAtNanoseconds)
            #expect(command.target == .users(["ada"]))
            #expect((try? SendID(command.id)) != nil)
        }
    }

    @Test func `A publisher's own id stays`() async throws {
        try await self.withPublisher { publisher, _ in
            var command = self.command()
            command.id = "order-17"
            let first = try await publisher.publish(command)
            let second = try await publisher.publish(command)
            #expect(first.send == "order-17")
            #expect(second.isDuplicate)
        }
    }

    @Test func `The same key with the same body is the same send, with another a conflict`() async throws {
        try await self.withPublisher { publisher, server in
            let first = try await publisher.publish(self.command(key: "k"))
            let second = try await publisher.publish(self.command(key: "k"))
            #expect(second.isDuplicate)
            #expect(second.send == first.send)
            await #expect {
                _ = try await publisher.publish(self.command("Bye", key: "k"))
            } throws: { error in
                let error = error as? PublisherError
                return error?.code == .conflict && error?.send == first.send && error?.field == "idempotency_key"
            }
            // One that has an id only is told of its id.
            var named = self.command()
            named.id = "same9"
            _ = try await publisher.publish(named)
            named.notification.title = "Another"
            await #expect {
                _ = try await publisher.publish(named)
            } throws: { error in
                let error = error as? PublisherError
                return error?.field == "id" && error?.message.contains("the id names the send same9 already") == true
            }
            #expect(try await self.mailbox(publisher, server, "k", .bulk).count == 1)
        }
    }

    @Test func `An error has the command with the id that it was written with, and publishing that is the same send`()
        async throws
    {
        try await self.withPublisher { publisher, server in
            // The command is written, and what was to prove its safety is refused.
            _ = try await server.command("ACL", "SETUSER", "default", "-wait")
            let error = await #expect(throws: PublisherError.self) {
                _ = try await publisher.publish(self.command(), acknowledgement: .replica)
            }
            let unsure = try #require(error?.command)
            #expect(error?.code == .refused && !unsure.id.isEmpty)
            #expect(try await PublisherFixture.mailboxes(publisher, server) == [unsure.id])
            let again = try await publisher.publish(unsure)
            #expect(again.isDuplicate && again.send == unsure.id)
            #expect(try await PublisherFixture.mailboxes(publisher, server) == [unsure.id])
            // One that breaks a rule is in its error, too.
            var wrong = self.command()
            wrong.app = "Shop"
            let refused = await #expect(throws: PublisherError.self) { _ = try await publisher.publish(wrong) }
            #expect(refused?.code == .invalid && refused?.command?.id.isEmpty == false)
        }
    }

    @Test func `An app that no dispatcher has is refused as soon as any is known`() async throws {
        try await self.withPublisher { publisher, _ in
            var stray = self.command()
            stray.app = "shpo"
            _ = try await publisher.publish(stray)
            let routes = publisher.installation.streams.routes
            _ = try await routes.number(of: Route(app: try AppID("shop"), provider: .fcm, environment: .production))
            let error = await #expect(throws: PublisherError.self) { _ = try await publisher.publish(stray) }
            #expect(error?.code == .invalid && error?.field == "app")
            #expect(error?.message == "app: there is no app shpo; did you mean shop? The apps are shop")
            _ = try await publisher.publish(self.command())
            // One that comes later is found.
            _ = try await routes.number(of: Route(app: try AppID("shpo"), provider: .fcm, environment: .production))
            _ = try await publisher.publish(stray)
        }
    }

    @Test func `A command that no dispatcher would accept is refused by the publisher, with the field`() async throws {
        try await self.withPublisher { publisher, _ in
            func field(_ command: SendCommand) async -> String? {
                do {
                    _ = try await publisher.publish(command)
                    return nil
                } catch {
                    return error.code == .invalid ? error.field : nil
                }
            }
            var command = self.command()
            command.app = "Shop"
            #expect(await field(command) == "app")
            command = self.command()
            command.id = "a b"
            #expect(await field(command) == "id")
            command = self.command(String(repeating: "x", count: Limits.textBytesMax + 1))
            #expect(await field(command) == "notification.title")
            command = self.command()
            command.target = .users((0...Limits.recipientsMax).map { "u\($0)" })
            #expect(await field(command)?.hasPrefix("target") == true)
        }
    }

    @Test func `A publisher waits for its receipt and skips those of other sends`() async throws {
        try await self.withPublisher { publisher, _ in
            let publication = try await publisher.publish(self.command())
            let streams = publisher.installation.streams
            let tag = streams.home(app: "shop", publication.send).tag
            async let waited = publisher.finalReceipt(of: publication, within: .seconds(20))
            func write(_ id: String, _ send: String, _ kind: SendReceipt.Kind, planned: UInt64) async throws {
                var receipt = SendReceipt(id: id, send: send, app: "shop", kind: kind)
                receipt.planned = planned
                try await streams.outcomes.write(receipt, replyTo: "", tag: tag)
            }
            try await write("1", "another", .final, planned: 1)
            try await write("2", publication.send, .progress, planned: 2)
            try await write("3", publication.send, .final, planned: 3)
            let receipt = try await waited
            #expect(receipt.planned == 3)
            // It stays there: whoever asks later gets the same.
            let again = try await publisher.finalReceipt(of: publication, within: .seconds(20))
            #expect(again == receipt)
        }
    }

    @Test(arguments: ["", "apus:receipts:test"])
    func `A receipt comes although the clock of Redis has gone back since the publication`(
        replyTo: String
    ) async throws {
        try await self.withPublisher { publisher, server in
            var command = self.command()
            (command.id, command.replyTo) = ("back", replyTo)
            let streams = publisher.installation.streams
            let home = streams.home(app: "shop", command.id)
            _ = try await self.moveAhead(home.mailbox(.bulk), server)
            let publication = try await publisher.publish(command)
            let receipt = SendReceipt(id: "final:back", send: "back", app: "shop", kind: .final)
            try await streams.outcomes.write(receipt, replyTo: replyTo, tag: home.tag)
            #expect(try await publisher.finalReceipt(of: publication, within: .seconds(20)).id == receipt.id)
        }
    }

    /// Writes an entry as Redis does whose clock is half a minute ahead, and then goes back. Returns that time.
    private func moveAhead(_ stream: String, _ server: RedisServer) async throws -> Int64 {
        let time = SystemClock().now().value + 30_000
        _ = try await server.command("XADD", .text(stream), .text("\(time)-1"), "m", "")
        return time
    }

    @Test func `A receipt from before the publication is found while receipts of others come without end`() async throws
    {
        try await self.withPublisher { publisher, server in
            var command = self.command()
            command.id = "back"
            let streams = publisher.installation.streams
            let home = streams.home(app: "shop", command.id)
            let ahead = try await self.moveAhead(home.mailbox(.bulk), server)
            let publication = try await publisher.publish(command)
            let receipt = SendReceipt(id: "final:back", send: "back", app: "shop", kind: .final)
            try await streams.outcomes.write(receipt, replyTo: "", tag: home.tag)
            let others = Task {
                for number in 1...Int64.max {
                    let entry = RedisArgument.text("\(ahead + number)-0")
                    _ = try await server.command("XADD", .text(home.receipts), entry, "m", "")
                    try await Task.sleep(for: .milliseconds(10))
                }
            }
            defer { others.cancel() }
            #expect(try await publisher.finalReceipt(of: publication, within: .seconds(20)).id == receipt.id)
        }
    }

    @Test func `Once others have receipts behind a publication, what is before it is searched in few reads, in order`()
        async throws
    {
        try await self.withPublisher { publisher, server in
            var command = self.command()
            command.id = "back"
            let home = publisher.installation.streams.home(app: "shop", command.id)
            let ahead = try await self.moveAhead(home.mailbox(.bulk), server)
            let publication = try await publisher.publish(command)
            func add(_ entry: String, _ receipt: SendReceipt? = nil) async throws {
                let message = RedisArgument.bytes(try receipt?.encode() ?? [])
                let add = RedisCommand("XADD", .text(home.receipts), .text(entry), "m", message)
                _ = try await publisher.installation.client.send(add, on: home.tag)
            }
            for number in 1...1_200 { try await add("\(ahead - 20_000)-\(number)") }
            for id in ["1", "2"] {
                let receipt = SendReceipt(id: id, send: "back", app: "shop", kind: .progress)
                try await add("\(ahead - 10_000)-\(id)", receipt)
            }
            try await add("\(ahead)-1")
            let waiting = Task {
                let reader = publisher.receipts(of: publication)
                var ids: [String] = []
                let isOver = try await reader.read(within: .seconds(60)) { receipt in
                    ids.append(receipt.id)
                    return receipt.kind != .final
                }
                await reader.close()
                return isOver ? ids : []
            }
            try await eventually("the reader has looked back") {
                try await Self.calls("xrevrange", server) >= 10
            }
            try await add("\(ahead)-2", SendReceipt(id: "3", send: "back", app: "shop", kind: .final))
            #expect(try await waiting.value == ["1", "2", "3"])
            #expect(try await Self.calls("xrevrange", server) == 10)
        }
    }

    /// The calls of a command that a server has executed since it started.
    private static func calls(_ command: String, _ server: RedisServer) async throws -> Int {
        let text = try await server.command("INFO", "commandstats").root.text()
        let line = text.split(whereSeparator: \.isNewline).first { $0.hasPrefix("cmdstat_\(command):calls=") }
        return line.flatMap { Int($0.drop { $0 != "=" }.dropFirst().prefix { $0 != "," }) } ?? 0
    }

    @Test func `The refusal of an earlier command does not end the send of a new one of its id`() async throws {
        try await self.withPublisher { publisher, server in
            var command = self.command()
            command.id = "again"
            let streams = publisher.installation.streams
            let home = streams.home(app: "shop", command.id)
            _ = try await self.moveAhead(home.mailbox(.bulk), server)
            let publication = try await publisher.publish(command)
            var refusal = SendReceipt(id: "refused:earlier", send: "again", app: "shop", kind: .refused)
            refusal.problem = Problem(code: "too_much_open", field: "app", detail: "has as many sends as it may")
            refusal.publishedAtNanoseconds = publication.publishedAtNanoseconds - 1
            try await streams.outcomes.write(refusal, replyTo: "", tag: home.tag)
            (refusal.id, refusal.publishedAtNanoseconds) = ("refused:own", publication.publishedAtNanoseconds)
            try await streams.outcomes.write(refusal, replyTo: "", tag: home.tag)
            #expect(try await publisher.finalReceipt(of: publication, within: .seconds(20)).id == "refused:own")
            // The same command again is the send that was refused, whenever each was published.
            let same = try await publisher.publish(command)
            #expect(same.isDuplicate && same.publishedAtNanoseconds > publication.publishedAtNanoseconds)
            #expect(try await publisher.finalReceipt(of: same, within: .seconds(20)).id == "refused:earlier")
        }
    }

    @Test func `The final receipt of an earlier send does not end a new one of its id`() async throws {
        try await self.withPublisher { publisher, server in
            var command = self.command()
            command.id = "again"
            let streams = publisher.installation.streams
            let home = streams.home(app: "shop", command.id)
            _ = try await self.moveAhead(home.mailbox(.bulk), server)
            let publication = try await publisher.publish(command)
            for (id, offset) in [("earlier", -1), ("own", 0)] as [(String, Int64)] {
                var receipt = SendReceipt(id: id, send: "again", app: "shop", kind: .final)
                receipt.publishedAtNanoseconds = publication.publishedAtNanoseconds + offset
                try await streams.outcomes.write(receipt, replyTo: "", tag: home.tag)
            }
            #expect(try await publisher.finalReceipt(of: publication, within: .seconds(20)).id == "own")
            // The same command again is the earlier send.
            let same = try await publisher.publish(command)
            #expect(try await publisher.finalReceipt(of: same, within: .seconds(20)).id == "earlier")
        }
    }

    @Test func `Receipts come to the publisher's own stream when it names one, each once`() async throws {
        try await self.withPublisher { publisher, _ in
            var command = self.command()
            command.replyTo = "apus:receipts:test"
            let publication = try await publisher.publish(command)
            let streams = publisher.installation.streams
            for id in ["1", "1", "2"] {
                let kind: SendReceipt.Kind = id == "2" ? .final : .recipients
                let receipt = SendReceipt(id: id, send: publication.send, app: "shop", kind: kind)
                try await streams.outcomes.write(
                    receipt,
                    replyTo: command.replyTo,
                    tag: HashTag(ofKey: command.replyTo)
                )
            }
            let reader = publisher.receipts(of: publication)
            var ids: [String] = []
            let isEnough = try await reader.read(within: .seconds(20)) { receipt in
                ids.append(receipt.id)
                return receipt.kind != .final
            }
            await reader.close()
            #expect(isEnough)
            #expect(ids == ["1", "2"])
        }
    }

    @Test func `Waiting for a receipt ends at the given time`() async throws {
        try await self.withPublisher { publisher, _ in
            let publication = try await publisher.publish(self.command())
            await #expect {
                _ = try await publisher.finalReceipt(of: publication, within: .milliseconds(50))
            } throws: { error in
                (error as? PublisherError)?.code == .timedOut
            }
        }
    }

    @Test func `A Redis without Apus, and none at all, are told apart`() async throws {
        try await RedisServer.with { server in
            await #expect {
                _ = try await Publisher(redis: server.url)
            } throws: { error in
                (error as? PublisherError)?.code == .notInitialized
            }
        }
        let port = try FreePort.find()
        await #expect {
            _ = try await Publisher(redis: "redis://127.0.0.1:\(port)")
        } throws: { error in
            (error as? PublisherError)?.code == .unavailable
        }
        await #expect {
            _ = try await Publisher(redis: "http://x")
        } throws: { error in
            (error as? PublisherError)?.code == .refused
        }
    }
}
