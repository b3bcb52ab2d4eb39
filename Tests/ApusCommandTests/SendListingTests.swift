import ApusCommand
import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStreams
import ApusTerminal
import ApusTestKit
import Testing

/// Tests the list of sends that `apus sends` shows.
@Suite struct SendListingTests {
    /// Accepts sends of an app, as a dispatcher does.
    private static func accept(_ names: [String], of app: String, _ streams: SendStreams) async throws {
        let route = Route(app: try AppID(app), provider: .apns, environment: .production)
        let number = try await streams.routes.number(of: route)
        for name in names {
            var command = SendCommand(app: app, target: .topic("news"), notification: Notification())
            command.id = name
            let home = streams.home(app: app, name)
            let entry = StreamEntry(stream: home.mailbox(.bulk), id: "1-1", message: [], deliveries: 1)
            _ = try await streams.mailboxes.accept(
                command,
                identity: SendIdentity(of: command, source: "\(entry.origin)/\(name)"),
                routes: [number],
                from: entry,
                by: StreamConsumer(group: StreamGroup.dispatcher, name: "test"),
                due: nil,
            )
        }
    }

    @Test func `Sends of all apps or of one are listed, by state and by a part of the id`() async throws {
        try await RedisServer.with { server in
            try await RedisAccess.withClient(server.url) { client in
                try await Installation.initialize(client, keyspace: Keyspace(queueShards: 2, devicePartitions: 4))
            }
            try await RedisAccess.withInstallation(server.url) { installation in
                let streams = installation.streams
                try await Self.accept((1...3).map { "news-\($0)" }, of: "shop", streams)
                try await Self.accept(["alert-1"], of: "bank", streams)
                let control = SendControlReport(streams, app: "shop", send: "news-2")
                _ = try await control.perform(.rate(1_500), by: .shell)
                _ = try await control.perform(.pause, by: .shell)
                func list(
                    _ app: String? = nil,
                    _ state: SendLists.State? = nil,
                    search: String = "",
                    limit: Int = 20,
                ) async throws -> SendListing {
                    let app = try app.map { try AppID($0) }
                    return try await SendListing(streams, of: app, state: state, search: search, limit: limit)
                }
                let all = try await list()
                #expect(Set(all.rows.map { "\($0.app)/\($0.status.send)" }).count == 4 && !all.hasMore)
                let times = all.rows.compactMap(\.status.acceptedAt)
                #expect(times.count == 4 && times == times.sorted { $0 > $1 })
                #expect(try await list("bank").rows.map(\.status.send) == ["alert-1"])
                let paused = try await list(nil, .paused)
                #expect(paused.rows.map(\.status.send) == ["news-2"])
                #expect(paused.lines.count == 2 && paused.lines[1].hasPrefix("news-2  shop  paused  "))
                #expect(paused.lines[1].hasSuffix("1,500"))
                let json = paused.json["sends"]?.array?.first
                #expect(json?["app"] == "shop" && json?["send"] == "news-2" && json?["rate_per_second"] == 1_500)
                #expect(json?["accepted_at_ms"]?.int64 ?? 0 > 0 && paused.json["more"] == false)
                #expect(try await list(search: "s-3").rows.map(\.status.send) == ["news-3"])
                let two = try await list("shop", limit: 2)
                #expect(two.rows.count == 2 && two.hasMore)
                #expect(try await list("shop", .done).lines == [])

                // A direct send is known by its whole id alone.
                var command = SendCommand(app: "shop", target: .devices(["d"]), notification: Notification())
                command.id = "direct-1"
                _ = try await streams.mailboxes.publish(command, lane: .bulk)
                let keys = streams.home(app: "shop", "direct-1")
                let receipt = SendReceipt(id: "final:direct-1", send: "direct-1", app: "shop", kind: .final)
                try await streams.outcomes.write(receipt, replyTo: "", tag: keys.tag)
                #expect(try await list(search: "direct").rows == [])
                #expect(try await list(search: "direct-1").rows.map(\.status.phase) == [.done])
            }
        }
    }
}
