import ApusCommand
import ApusCore
import ApusMessages
import ApusPublisher
import ArgumentParser

/// `apus send`: publishes one send.
struct Send: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Send a notification.",
        discussion: "Prints the send's id. With --wait, shows how it goes on and what became of it.",
    )

    @OptionGroup var redis: RedisOptions
    @OptionGroup var output: OutputOptions
    @Option(help: "The app.")
    var app: String
    @Option(help: "To the subscribers of a topic.")
    var topic: String?
    @Option(name: .customLong("device"), help: "To a device; may be repeated.")
    var devices: [String] = []
    @Option(name: .customLong("user"), help: "To all devices of a user; may be repeated.")
    var users: [String] = []
    @Option(
        name: .customLong("address"),
        help: "To a token, as provider:token (apns, apns-sandbox, fcm); may be repeated.",
    )
    var addresses: [String] = []
    @Option(help: "To a condition over topics: \"'a' in topics && !('b' in topics)\".")
    var condition: String?
    @Flag(help: "To every device of the app.")
    var everyone = false
    @Option(help: "The headline.")
    var title = ""
    @Option(help: "The text.")
    var body = ""
    @Option(help: "Data for the app, as key=value; may be repeated.")
    var data: [String] = []
    @Option(help: "How long it is worth delivering: 30s, 5m, 2h, 1d.")
    var ttl: String?
    @Option(help: "The send's id; else one is made.")
    var id = ""
    @Option(help: "An idempotency key: the same key within a day is the same send.")
    var key = ""
    @Flag(help: "By the express lane: for what a person waits for.")
    var express = false
    @Flag(help: "Wait until every recipient has its outcome.")
    var wait = false
    @Option(help: "Seconds to wait at most.")
    var timeout: Double?

    private var order: SendOrder {
        var order = SendOrder()
        order.app = self.app
        order.topic = self.topic
        order.devices = self.devices
        order.users = self.users
        order.addresses = self.addresses
        order.condition = self.condition
        order.everyone = self.everyone
        order.title = self.title
        order.body = self.body
        order.data = self.data
        order.ttl = self.ttl
        order.id = self.id
        order.key = self.key
        return order
    }

    func validate() throws {
        do {
            _ = try self.order.command()
        } catch {
            throw ValidationError(error.description)
        }
    }

    func run() async throws {
        let publisher = try await Publisher(redis: self.redis.url)
        do {
            try await self.publish(with: publisher)
            await publisher.close()
        } catch {
            await publisher.close()
            throw error
        }
    }

    private func publish(with publisher: Publisher) async throws {
        let publication = try await publisher.publish(self.order.command(), lane: self.express ? .express : .bulk)
        if publication.isDuplicate { Console.talk("this key named that send within a day; nothing was sent again") }
        guard self.wait else {
            self.output.write(
                ["send": .string(publication.send), "duplicate": .bool(publication.isDuplicate)],
                else: [publication.send],
            )
            return
        }
        try await Watching(send: publication.send, app: self.app, timeout: self.timeout)
            .run(SendObserver(publisher, publication), self.output)
    }
}
