import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStore
import ApusTestKit
import Logging
import NIOPosix
import Testing

/// `apus audience count` and `explain`, against a store whose devices were counted by hand.
@Suite(.serialized) struct AudienceCommandTests {
    private static let keyspace = Keyspace(queueShards: 2, devicePartitions: 8)

    /// 600 devices: even ones of Apple, odd ones of Google; every third subscribes "news", every fifth speaks German.
    private static func with(_ body: (_ url: String) async throws -> Void) async throws {
        try await RedisServer.with { server in
            let client = try RedisClient(
                configuration: server.configuration,
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
            )
            try await Installation.initialize(client, keyspace: Self.keyspace)
            let store = try await Installation(client, clock: SystemClock()).store
            for index in 0..<600 {
                let provider: Provider = index.isMultiple(of: 2) ? .apns : .fcm
                let bytes = (0..<32).map { UInt8(truncatingIfNeeded: index >> (8 * ($0 % 2))) }
                let token = provider == .apns ? Hexadecimal.encode(bytes) : "token-\(index)"
                var registration = DeviceRegistration(device: "phone-\(index)", provider: provider, token: token)
                registration.topics = index.isMultiple(of: 3) ? ["news"] : []
                registration.attributes.locale = index.isMultiple(of: 5) ? "de" : "en"
                _ = try await store.register(try AppID("shop"), registration)
            }
            try await body(server.url)
            await client.close()
        }
    }

    private func ask(_ verb: String, _ expression: String, _ url: String) throws -> OperatorProgram.Answer {
        try OperatorProgram.run(["audience", verb, expression, "--app", "shop", "--json", "--redis", url])
    }

    /// Devices by route.
    private func devices(_ json: JSONValue) -> [String: Int64?] {
        let routes = json["routes"]?.array ?? []
        return Dictionary(uniqueKeysWithValues: routes.map { ($0["route"]?.string ?? "", $0["devices"]?.int64) })
            .filter { $0.value != 0 }
    }

    @Test func `Topics and attributes are counted exactly, and explain shows the cost`() async throws {
        try await Self.with { url in
            // Topics say it all: nobody's record is read.
            var json = try #require(try self.ask("count", "'news' in topics", url).json)
            #expect(json["devices"]?.int64 == 200)
            #expect(self.devices(json) == ["apns": 100, "fcm": 100])
            for route in json["routes"]?.array ?? [] where route["devices"]?.int64 != 0 {
                #expect(route["exact_from_topics"] == true && route["records"]?.int64 == 0)
                #expect((route["postings"]?.int64 ?? 0) > 0)
            }
            json = try #require(try self.ask("explain", "'news' in topics", url).json)
            #expect(json["devices"]?.int64 == 200)

            // Every fifteenth, of whom half are Apple's.
            let german = "'news' in topics && locale == 'de'"
            json = try #require(try self.ask("count", german, url).json)
            #expect(json["expression"]?.string?.contains("locale") == true)
            #expect(json["devices"]?.int64 == 40)
            #expect(self.devices(json) == ["apns": 20, "fcm": 20])
            let read = (json["routes"]?.array ?? []).reduce(0) { $0 + ($1["records"]?.int64 ?? 0) }
            #expect(read == 200)

            // The devices that topics leave would have to be read; they were not.
            json = try #require(try self.ask("explain", german, url).json)
            #expect(json["devices"] == .null)
            let candidates = (json["routes"]?.array ?? []).reduce(0) { $0 + ($1["candidates"]?.int64 ?? 0) }
            #expect(candidates == 200)

            json = try #require(try self.ask("count", "!('news' in topics) && provider == 'fcm'", url).json)
            #expect(json["devices"]?.int64 == 200 && self.devices(json) == ["fcm": 200])
            json = try #require(try self.ask("count", "'nobody' in topics", url).json)
            #expect(json["devices"]?.int64 == 0)
        }
    }

    @Test func `The text output has lines, and a mistake is shown at its place`() async throws {
        try await Self.with { url in
            let order = ["audience", "count", "'news' in topics && locale == 'de'", "--app", "shop", "--redis", url]
            let text = try OperatorProgram.run(order)
            #expect(text.code == 0 && text.lines.last == "40 devices")
            #expect(text.lines.contains { $0.hasPrefix("apns ") && $0.contains("20") })
            let explained = try OperatorProgram.run(["audience", "explain"] + order.dropFirst(2))
            #expect(explained.code == 0 && explained.lines.last == "up to 200 devices")
            let broken = try OperatorProgram.run(
                ["audience", "count", "'news' in topics && ?", "--app", "shop", "--redis", url]
            )
            #expect(broken.code == 1 && broken.output.isEmpty)
            let lines = broken.talk.split(separator: "\n", omittingEmptySubsequences: false)
            let mark = lines.first { $0.trimmed == "^" }
            #expect(mark?.count == "  'news' in topics && ?".count, "\(broken.talk)")
        }
    }
}

extension Substring {
    fileprivate var trimmed: String { String(self.filter { $0 != " " }) }
}
