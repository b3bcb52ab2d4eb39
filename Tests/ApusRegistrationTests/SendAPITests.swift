import ApusCore
import ApusInstallation
import ApusMessages
import ApusRedis
import ApusStore
import ApusStreams
import ApusTestKit
import Testing

private let path = "/v1/apps/shop/sends"
private let send = #"{"target":{"topic":"news"},"notification":{"title":"Swifts","data":{"a":"b"},"ttl_ms":60000}}"#

extension Fixture {
    /// The commands that wait in all mailboxes of a lane.
    fileprivate func commands(_ lane: Lane) async throws -> [SendCommand] {
        try await self.messages { $0.mailbox(lane) }.map { try SendCommand.decode($0) }
    }

    /// The commands that wait on a replica in all mailboxes of a lane.
    fileprivate func commands(_ lane: Lane, on replica: RedisServer) async throws -> [SendCommand] {
        var commands: [SendCommand] = []
        for shard in 0..<Self.keyspace.queueShards {
            let mailbox = self.installation.streams.keys(shard: shard).mailbox(lane)
            let reply = try await replica.command("XRANGE", .text(mailbox), "-", "+")
            commands += try reply.root.children.map { try SendCommand.decode($0[1][1].bytes ?? []) }
        }
        return commands
    }

    /// Takes a send to a topic, as a dispatcher does.
    fileprivate func accept(_ id: String, key: String = "", due: UnixMilliseconds? = nil) async throws {
        let streams = self.installation.streams
        let route = Route(app: try AppID("shop"), provider: .fcm, environment: .production)
        var command = SendCommand(app: "shop", target: .topic("news"), notification: Notification())
        command.id = id
        command.idempotencyKey = key
        let home = streams.home(app: "shop", key.isEmpty ? id : key)
        let entry = StreamEntry(stream: home.mailbox(.bulk), id: "\(id.utf8.last ?? 0)-1", message: [], deliveries: 1)
        _ = try await streams.mailboxes.accept(
            command,
            identity: SendIdentity(of: command, source: entry.source),
            routes: [try await streams.routes.number(of: route)],
            from: entry,
            by: StreamConsumer(group: StreamGroup.dispatcher, name: "test"),
            due: due,
        )
    }

    /// The messages of a stream in all shards.
    func messages(_ key: (StreamKeys) -> String) async throws -> [[UInt8]] {
        var messages: [[UInt8]] = []
        for shard in 0..<Self.keyspace.queueShards {
            let keys = self.installation.streams.keys(shard: shard)
            let reply = try await self.client.send(RedisCommand("XRANGE", .text(key(keys)), "-", "+"), on: keys.tag)
            messages += reply.root.children.map { $0[1][1].bytes ?? [] }
        }
        return messages
    }
}

@Suite struct SendAPITests {
    @Test func aSendGoesIntoTheMailboxOnce() async throws {
        try await Fixture.with { fixture in
            let headers = [("idempotency-key", "order 17")]
            let first = try await fixture.ask("POST", path, send, key: Fixture.publishKey, headers)
            #expect(first.status == 202, "\(first.text)")
            let id = try #require(try member(first, "send")?.string)
            #expect(first.header("location") == "\(path)/\(id)")
            #expect(try member(first, "duplicate") == false)
            let again = try await fixture.ask("POST", path, send, key: Fixture.adminKey, headers)
            #expect(again.status == 202)
            #expect(try member(again, "send") == .string(id))
            #expect(try member(again, "duplicate") == true)
            let other = send.replacing("Swifts", with: "Martins")
            #expect(try await fixture.ask("POST", path, other, key: Fixture.publishKey, headers).status == 409)
            let commands = try await fixture.commands(.bulk)
            #expect(commands.count == 1)
            #expect(commands.first?.id == id)
            #expect(commands.first?.target == .topic("news"))
            #expect(commands.first?.notification.title == "Swifts")
            #expect(commands.first?.notification.data == ["a": "b"])
            #expect(commands.first?.notification.expiry == .ttl(milliseconds: 60_000))
            #expect((commands.first?.publishedAtNanoseconds ?? 0) > 0)
            let waiting = try await fixture.ask("GET", "\(path)/\(id)", key: Fixture.publishKey)
            #expect(waiting.status == 200)
            #expect(try member(waiting, "state") == "waiting")
            #expect(try await fixture.ask("GET", "\(path)/nobody", key: Fixture.publishKey).status == 404)
        }
    }

    @Test func `A send is accepted once a replica has it, and whoever asks again makes no second one`() async throws {
        try await Fixture.with(settings: "  wait_for_replica: true", redis: .init(isCluster: false)) { fixture in
            let options = RedisServer.Options(isCluster: false, primaryPort: fixture.redis.port)
            try await RedisServer.with(options) { replica in
                try await eventually("the replica follows") {
                    try await fixture.redis.command("INFO", "replication").namesOnlineReplica
                }
                func publish(_ id: String) async throws -> Answer {
                    let body = send.replacing(#"{"target""#, with: #"{"id":"\#(id)","target""#)
                    return try await fixture.ask("POST", path, body, key: Fixture.publishKey)
                }
                // On a busy machine a replica may need longer than is waited for.
                try await eventually("the replica has it") { try await publish("first").status == 202 }
                replica.suspend()
                let second = try await publish("second")
                #expect(second.status == 503, "\(second.text)")
                #expect(try member(second, "detail") == "no replica has the send second yet")
                #expect(second.header("retry-after") != nil)
                // This one was refused, and is nowhere.
                let other = send.replacing("Swifts", with: "Martins").replacing(
                    #"{"target""#,
                    with: #"{"id":"first","target""#
                )
                #expect(try await fixture.ask("POST", path, other, key: Fixture.publishKey).status == 409)
                replica.resume()
                try await eventually("the replica has it") { try await publish("second").status == 202 }
                #expect(try await fixture.commands(.bulk).map(\.id).sorted() == ["first", "second"])
                #expect(try await fixture.commands(.bulk, on: replica).map(\.id).sorted() == ["first", "second"])
            }
        }
    }

    @Test func protobufIsAsGoodAndTheLaneIsChosen() async throws {
        try await Fixture.with { fixture in
            var notification = Notification()
            notification.title = "Code"
            var command = SendCommand(app: "shop", target: .users(["anna"]), notification: notification)
            command.id = "code-1"
            let connection = try await fixture.connect()
            let answer = try await connection.ask(
                "POST",
                "\(path)?lane=express",
                [("authorization", "Bearer \(Fixture.publishKey)"), ("content-type", "application/protobuf")],
                body: try command.encode(),
            )
            await connection.close()
            #expect(answer.status == 202, "\(answer.text)")
            #expect(try await fixture.commands(.express).map(\.id) == ["code-1"])
            let bad = try await fixture.ask("POST", "\(path)?lane=fast", send, key: Fixture.publishKey)
            #expect(bad.status == 400)
        }
    }

    @Test func aDirectSendIsToldByItsReceipt() async throws {
        try await Fixture.with { fixture in
            let body = #"{"id":"one","target":{"devices":["d1"]},"notification":{"title":"Hi"}}"#
            #expect(try await fixture.ask("POST", path, body, key: Fixture.publishKey).status == 202)
            let streams = fixture.installation.streams
            let tag = streams.home(app: "shop", "one").tag
            for app in ["news", "shop"] {
                var receipt = SendReceipt(id: "r-\(app)", send: "one", app: app, kind: .final)
                receipt.planned = app == "shop" ? 1 : 9
                try await streams.outcomes.write(receipt, replyTo: "", tag: tag)
            }
            let status = try await fixture.ask("GET", "\(path)/one", key: Fixture.publishKey)
            #expect(try member(status, "state") == "done")
            #expect(try member(status, "planned") == 1)
            #expect(try member(status, "events") == ["by_provider": []])
            #expect(try member(status, "open_rate") == .null)
            #expect(try await fixture.ask("GET", "/v1/apps/news/sends/one", key: Fixture.newsKey).status == 403)
        }
    }

    @Test func `A send that waits tells its obstacles: services that do not run, and its routes`() async throws {
        try await Fixture.with { fixture in
            let body = #"{"id":"slow","target":{"topic":"news"},"notification":{"title":"Hi"}}"#
            #expect(try await fixture.ask("POST", path, body, key: Fixture.publishKey).status == 202)
            func obstacles(of send: String = "slow") async throws -> [String] {
                let status = try await fixture.ask("GET", "\(path)/\(send)", key: Fixture.publishKey)
                #expect(status.status == 200, "\(status.text)")
                let found = (try? member(status, "obstacles"))?.array ?? []
                return found.map { each in
                    let of = each["route"]?.string ?? each["service"]?.string ?? ""
                    return "\(of) \(each["code"]?.string ?? "") \(each["detail"]?.string ?? "")"
                }
            }
            #expect(try await obstacles() == ["dispatcher not_running ", "feedback not_running "])
            let streams = fixture.installation.streams
            func report(_ service: String, _ problem: String?) async throws {
                try await streams.processes.report(
                    "\(service)-1",
                    service: service,
                    version: "1",
                    uptimeMilliseconds: 9_000,
                    problem: problem
                )
            }
            try await report("dispatcher", "redis: away")
            try await report("feedback", nil)
            #expect(try await obstacles() == ["dispatcher not_ready redis: away"])
            try await report("dispatcher", nil)
            #expect(try await obstacles() == [])
            let route = try await streams.routes.number(of: try #require(Route("shop/apns/production")))
            _ = try await streams.routes.number(of: try #require(Route("news/apns/production")))
            for number in [route, RouteNumber(route.value + 1)] { try await streams.routes.control(number, .pause) }
            #expect(try await obstacles() == ["shop/apns/production paused "])
            // On other routes of its app nobody waits once a dispatcher has taken a send.
            try await fixture.accept("taken")
            #expect(try await obstacles(of: "taken") == [])
            let own = try await streams.routes.number(of: try #require(Route("shop/fcm/production")))
            try await streams.routes.control(own, .pause)
            #expect(try await obstacles(of: "taken") == ["shop/fcm/production paused "])
            // A route that dispatchers have lost is named, unless it was removed days ago.
            func lose(for milliseconds: Int64) async throws {
                let times: [RedisArgument] = ["#asked", .integer(milliseconds), .text("@\(route)"), 0]
                let command = RedisCommand("HSET", [.text(StreamKeys.routes)] + times)
                _ = try await fixture.client.send(command, on: HashTag(ofKey: StreamKeys.routes))
            }
            try await lose(for: 3_600_000)
            let lost = ["shop/apns/production not_configured ", "shop/fcm/production paused "]
            #expect(try await obstacles() == lost)
            try await lose(for: 90_000_000)
            #expect(try await obstacles() == ["shop/fcm/production paused "])
        }
    }

    @Test func `D72 A send over HTTP has one target, in JSON and in protobuf`() async throws {
        try await Fixture.with { fixture in
            for target in [
                #"{"fcm_topic":"a","addresses":[{"provider":"fcm","token":"t"}]}"#, #"{"topic":"a","devices":["d"]}"#,
                #"{"topic":"a","fcmTopic":"a"}"#, #"{"topic":"a","users":null}"#, "{}", "null",
            ] {
                let body = "{\"target\":\(target),\"notification\":{\"title\":\"Hi\"}}"
                let answer = try await fixture.ask("POST", path, body, key: Fixture.publishKey)
                #expect(answer.status == 422, "\(target) \(answer.text)")
                #expect(pointers(answer) == ["#/target"], "\(target)")
                #expect(target == "null" || answer.text.contains("must have exactly one of"), "\(answer.text)")
            }
            let connection = try await fixture.connect()
            // A target of a topic and of an FCM topic, and one of nobody: field 3, then the notification, field 4.
            for (target, pointer) in [
                ([0x22, 0x01, 0x61, 0x42, 0x01, 0x62], "#/target/fcm_topic"), ([], "#/target"),
            ] as [([UInt8], String)] {
                let app: [UInt8] = [0x12, 0x04] + Array("shop".utf8)
                let answer = try await connection.ask(
                    "POST",
                    path,
                    [("authorization", "Bearer \(Fixture.publishKey)"), ("content-type", "application/protobuf")],
                    body: app + [0x1a, UInt8(target.count)] + target + [0x22, 0x00],
                )
                #expect(answer.status == 422, "\(answer.text)")
                #expect(pointers(answer) == [pointer])
            }
            await connection.close()
            #expect(try await fixture.commands(.bulk).isEmpty)
        }
    }

    @Test func `Receipts go into streams of the app, or of a publisher that may publish for it`() async throws {
        let publishers = "publishers: {shop-backend: {apps: [shop]}, news-backend: {apps: [news]}}"
        try await Fixture.with(settings: publishers, shop: "    receipt_streams: [eu]") { fixture in
            func publish(_ stream: String) async throws -> Answer {
                let body = send.dropLast() + #","reply_to":"apus:receipts:\#(stream)"}"#
                return try await fixture.ask("POST", path, String(body), key: Fixture.publishKey)
            }
            for stream in [
                "news-backend", "news-backend:eu", "news", "news:eu", "anybody", "shop2", "shops:eu", "", "shop:us",
                "shop:",
                "shop:eu:1",
            ] {
                let answer = try await publish(stream)
                #expect(answer.status == 422 && pointers(answer) == ["#/reply_to"], "\(answer.text)")
            }
            #expect(try await fixture.commands(.bulk).isEmpty)
            for stream in ["shop-backend", "shop-backend:eu", "shop", "shop:eu"] {
                #expect(try await publish(stream).status == 202, "\(stream)")
            }
            #expect(try await fixture.commands(.bulk).count == 4)
        }
    }

    @Test func `FCM's apns block is given as an object or as its text`() async throws {
        try await Fixture.with { fixture in
            for block in [#"{"headers":{"apns-priority":"5"}}"#, #""{\"headers\":{\"apns-priority\":\"5\"}}""#] {
                let body = #"{"target":{"topic":"a"},"notification":{"title":"Hi","fcm_apns_json":\#(block)}}"#
                #expect(try await fixture.ask("POST", path, body, key: Fixture.publishKey).status == 202)
            }
            let texts = try await fixture.commands(.bulk).map(\.notification.fcmAPNsJSON)
            #expect(texts == Array(repeating: #"{"headers":{"apns-priority":"5"}}"#, count: 2))
        }
    }

    @Test func `A browser's address names the key that it subscribed with`() async throws {
        try await Fixture.with { fixture in
            let key = [4] + [UInt8](repeating: 7, count: 64)
            func body(_ text: String) -> String {
                #"{"target":{"addresses":[{"provider":"webpush","token":"https://web.push.apple.com/1","#
                    + #""application_server_key":"\#(text)"}]},"notification":{"title":"Tea"}}"#
            }
            let answer = try await fixture.ask("POST", path, body(Base64URL.encode(key)), key: Fixture.publishKey)
            #expect(answer.status == 202, "\(answer.text)")
            let lanes = try await fixture.commands(.bulk) + fixture.commands(.express)
            guard case .addresses(let addresses) = lanes.first?.target else {
                Issue.record("no addresses")
                return
            }
            #expect(addresses.map(\.applicationServerKey) == [key])
            #expect(try await fixture.ask("POST", path, body("AAAA"), key: Fixture.publishKey).status == 422)
        }
    }

    @Test func whatIsWrongIsSaidWithItsPlace() async throws {
        let later = SystemClock().now().value + 3_600_000
        let table: [(String, [String])] = [
            ("{}", ["#/target", "#/notification"]),
            (#"{"target":{},"notification":{}}"#, ["#/target"]),
            (#"{"target":{"topic":"a","users":["b"]},"notification":{}}"#, ["#/target"]),
            (#"{"target":{"users":"b"},"notification":{}}"#, ["#/target/users"]),
            (
                #"{"target":{"addresses":[{"provider":"fcm"}]},"notification":{"title":1}}"#,
                ["#/target/addresses/0/token", "#/notification/title"]
            ),
            (
                #"{"target":{"addresses":[{"provider":"fcm","token":"t","kind":"voip"}]},"notification":{}}"#,
                ["#/target/addresses/0/kind"]
            ),
            (
                #"{"target":{"topic":"a"},"notification":{"priority":"now","badge_set":1,"badge_increment":1}}"#,
                ["#/notification/badge_set", "#/notification/priority"]
            ),
            (#"{"target":{"topic":"a"},"notification":{},"app":"news"}"#, ["#/app"]),
            (#"{"target":{"topic":"a"},"notification":{},"id":"a b"}"#, ["#/id"]),
            (#"{"target":{"topic":"a"},"notification":{},"id":"a","idempotency_key":"k"}"#, ["#/id"]),
            (#"{"target":{"topic":"a"},"notification":{"ttl_ms":-1}}"#, ["#/notification/ttl_ms"]),
            (#"{"target":{"topic":"a b"},"notification":{}}"#, ["#/target/topic"]),
            (#"{"target":{"condition":"'a' on topics"},"notification":{}}"#, ["#/target/condition"]),
            (#"{"target":{"expression":"shoesize == 4"},"notification":{}}"#, ["#/target/expression"]),
            (#"{"target":{"fcm_condition":"'a'"},"notification":{}}"#, ["#/target/fcm_condition"]),
            (#"{"target":{"devices":["a",""]},"notification":{}}"#, ["#/target/devices/1"]),
            (#"{"target":{"users":[]},"notification":{}}"#, ["#/target/users"]),
            (#"{"target":{"topic":"a"},"notification":{},"reply_to":"mine"}"#, ["#/reply_to"]),
            (#"{"target":{"topic":"a"},"notification":{},"not_before_ms":1764072000}"#, ["#/not_before_ms"]),
            (
                #"{"target":{"topic":"a"},"notification":{"expires_at_ms":1764072000000}}"#,
                ["#/notification/expires_at_ms"]
            ),
            (
                #"{"target":{"topic":"a"},"notification":{"ttl_ms":1000},"not_before_ms":\#(later)}"#,
                ["#/notification/ttl_ms"]
            ),
            (
                #"{"target":{"topic":"a"},"notification":{"title":"\#(String(repeating: "t", count: 4_097))"}}"#,
                ["#/notification/title"]
            ),
            (#"{"target":{"topic":"a"},"notification":{"image":"http://a.example/b"}}"#, ["#/notification/image"]),
            (#"{"target":{"topic":"a"},"notification":{"color":"red"}}"#, ["#/notification/color"]),
            (#"{"target":{"topic":"a"},"notification":{"sound":{"volume":1}}}"#, ["#/notification/sound/volume"]),
            (
                #"{"target":{"topic":"a"},"notification":{"kind":"background","body":"Hi"}}"#,
                ["#/notification/body"]
            ),
            (
                #"{"target":{"topic":"a"},"notification":{"kind":"background","badge_set":1}}"#,
                ["#/notification/badge_set"]
            ),
            (
                #"{"target":{"topic":"a"},"notification":{"data":{"apus.send":"a"}}}"#,
                ["#/notification/data/apus.send"]
            ),
            (
                #"{"target":{"topic":"a"},"notification":{"data":{"[ü/]":"\#(String(repeating: "t", count: 4_097))"}}}"#,
                ["#/notification/data/%5B%C3%BC~1%5D"]
            ),
        ]
        try await Fixture.with { fixture in
            for (body, expected) in table {
                let answer = try await fixture.ask("POST", path, body, key: Fixture.publishKey)
                #expect(answer.status == 422, "\(body.prefix(100)) \(answer.text)")
                #expect(pointers(answer) == expected, "\(body.prefix(100))")
            }
            for key in [Fixture.shopKey, try Fixture.token("anna")] {
                #expect(try await fixture.ask("POST", path, send, key: key).status == 403)
                #expect(try await fixture.ask("GET", "\(path)/x", key: key).status == 403)
            }
            let huge = #"{"target":{"topic":"a"},"notification":{"body":"\#(String(repeating: "x", count: 330_000))"}}"#
            #expect(try await fixture.ask("POST", path, huge, key: Fixture.publishKey).status == 413)
            #expect(try await fixture.commands(.bulk).isEmpty)
        }
    }

    @Test func `A misspelt, repeated or malformed parameter of the query is refused, and nothing is published`()
        async throws
    {
        try await Fixture.with { fixture in
            for (method, target, words) in [
                ("POST", "\(path)?lan=express", "unknown parameter lan; did you mean lane?"),
                ("POST", "\(path)?lane=express&lane=bulk", "lane more than once"),
                ("POST", "\(path)?lane=%zz", "must be percent-encoded"),
                ("POST", "\(path)?state=done", "unknown parameter state"),
                ("GET", "\(path)?stat=running", "did you mean state?"),
                ("GET", "\(path)/one?limit=3", "unknown parameter limit"),
                ("PATCH", "\(path)/one?force", "unknown parameter force"),
            ] {
                let body = method == "GET" ? "" : method == "PATCH" ? #"{"state":"paused"}"# : send
                let answer = try await fixture.ask(method, target, body, key: Fixture.publishKey)
                #expect(answer.status == 400, "\(method) \(target) \(answer.text)")
                #expect(answer.text.contains(words), "\(method) \(target) \(answer.text)")
            }
            for lane in Lane.allCases { #expect(try await fixture.commands(lane).isEmpty) }
        }
    }

    @Test func `Sends are listed page by page, the last first, and by their state`() async throws {
        try await Fixture.with { fixture in
            for index in 1...5 { try await fixture.accept("news-\(index)") }
            try await fixture.accept("later-6", due: UnixMilliseconds(4_102_444_800_000))
            func page(_ query: String) async throws -> (sends: [String], next: String?) {
                let answer = try await fixture.ask("GET", "\(path)?\(query)", key: Fixture.publishKey)
                #expect(answer.status == 200, "\(query) \(answer.text)")
                let sends = try member(answer, "sends")?.array ?? []
                return (sends.compactMap { $0["send"]?.string }, try member(answer, "next")?.string)
            }
            var (all, cursor) = ([String](), String?.none)
            repeat {
                let (sends, next) = try await page("limit=4" + (cursor.map { "&cursor=\($0)" } ?? ""))
                #expect(sends.count == (cursor == nil ? 4 : 2))
                (all, cursor) = (all + sends, next)
            } while cursor != nil && all.count < 10
            #expect(all.sorted() == ["later-6", "news-1", "news-2", "news-3", "news-4", "news-5"])
            #expect(try await page("state=scheduled").sends == ["later-6"])
            #expect(try await page("search=news-3").sends == ["news-3"])
            let cancel = try await fixture.ask(
                "PATCH",
                "\(path)/news-2",
                #"{"state":"cancelled"}"#,
                key: Fixture.publishKey
            )
            #expect(try member(cancel, "state") == "cancelled", "\(cancel.text)")
            #expect(try await page("state=cancelled").sends == ["news-2"])
            for wrong in ["limit=0", "limit=1000000", "cursor=x", "state=held", "search=a%20b"] {
                let answer = try await fixture.ask("GET", "\(path)?\(wrong)", key: Fixture.publishKey)
                #expect(answer.status == 400, "\(wrong) \(answer.text)")
            }
        }
    }

    @Test func `A send is held, slowed, resumed and cancelled for good`() async throws {
        try await Fixture.with { fixture in
            try await fixture.accept("sale-1")
            func patch(_ body: String) async throws -> Answer {
                try await fixture.ask("PATCH", "\(path)/sale-1", body, key: Fixture.publishKey)
            }
            for (body, state, rate) in [
                (#"{"state":"paused"}"#, "paused", 0), (#"{"rate_per_second":250}"#, "paused", 250),
                (#"{"state":"running"}"#, "planning", 250),
                (#"{"state":"running","rate_per_second":0}"#, "planning", 0),
                (#"{"state":"cancelled"}"#, "cancelled", 0),
            ] {
                let answer = try await patch(body)
                #expect(answer.status == 200, "\(body) \(answer.text)")
                #expect(try member(answer, "state") == .string(state), "\(body) \(answer.text)")
                #expect(try member(answer, "rate_per_second") == .integer(rate), "\(body) \(answer.text)")
                let status = try await fixture.ask("GET", "\(path)/sale-1", key: Fixture.publishKey)
                #expect(try member(status, "rate_per_second") == .integer(rate), "\(status.text)")
                #expect(try member(status, "accepted_at_ms")?.int64 ?? 0 > 0, "\(status.text)")
            }
            // Nothing brings a cancelled send back.
            for body in [#"{"state":"running"}"#, #"{"state":"paused"}"#, #"{"rate_per_second":5}"#] {
                #expect(try await patch(body).status == 409, "\(body)")
            }
            for (body, pointer) in [
                (#"{"state":"stopped"}"#, "#/state"), (#"{"rate":5}"#, "#/rate"), ("{}", "#"),
                (#"{"rate_per_second":-1}"#, "#/rate_per_second"),
            ] {
                let answer = try await patch(body)
                #expect(answer.status == 422 && pointers(answer).contains(pointer), "\(body) \(answer.text)")
            }
            let unknown = try await fixture.ask(
                "PATCH",
                "\(path)/nobody",
                #"{"state":"paused"}"#,
                key: Fixture.publishKey
            )
            #expect(unknown.status == 404)
            let trail = try await fixture.installation.streams.audit.newest(10, app: "shop")
            #expect(trail.contains { $0.action == "send.cancel" && $0.object == "sale-1" && $0.detail.isEmpty })
            #expect(trail.filter { $0.detail.hasSuffix("refused: it was cancelled before") }.count == 3)
        }
    }

    @Test func `A key over HTTP names its send as long as that has a ledger, also after the window`() async throws {
        try await Fixture.with { fixture in
            let headers = [("idempotency-key", "order 17")]
            let first = try await fixture.ask("POST", path, send, key: Fixture.publishKey, headers)
            let id = try #require(try member(first, "send")?.string)
            // The window passes, and then a dispatcher takes the command.
            let streams = fixture.installation.streams
            let home = streams.home(app: "shop", id)
            let window = RedisCommand("DEL", .text(home.tag.key("idem:1")))
            #expect(try await fixture.client.send(window, on: home.tag).root.integer == 1)
            let command = try #require(try await fixture.commands(.bulk).first)
            let taken = try await streams.mailboxes.accept(
                command,
                identity: SendIdentity(of: command, source: ""),
                routes: [RouteNumber(1)],
                from: StreamEntry(stream: home.mailbox(.bulk), id: "1-1", message: [], deliveries: 1),
                by: StreamConsumer(group: StreamGroup.dispatcher, name: "test"),
                due: nil,
            )
            #expect(taken.admission == .new)
            _ = try await fixture.client.send(window, on: home.tag)
            let again = try await fixture.ask("POST", path, send, key: Fixture.publishKey, headers)
            #expect(again.status == 202)
            #expect(try member(again, "duplicate") == true)
            let other = send.replacing("Swifts", with: "Martins")
            let refused = try await fixture.ask("POST", path, other, key: Fixture.publishKey, headers)
            #expect(refused.status == 409 && refused.text.contains("as long as its ledger is kept"), "\(refused.text)")
        }
    }

    @Test func `A send that is in several shards, by its idempotency keys, is controlled in all of them`()
        async throws
    {
        try await Fixture.with { fixture in
            let streams = fixture.installation.streams
            let keys = (0..<100).map { "key-\($0)" }
            var homes: [StreamKeys] = []
            for key in keys where homes.count < 2 && !homes.contains(streams.home(app: "shop", key)) {
                try await fixture.accept("order-17", key: key)
                homes.append(streams.home(app: "shop", key))
            }
            #expect(homes.count == 2)
            for (index, keys) in homes.enumerated() {
                let state = keys.send(SendKey(app: "shop", id: "order-17"))
                let found = RedisCommand("HSET", .text(state), "planned", .integer(index + 1))
                _ = try await fixture.client.send(found, on: keys.tag)
            }
            let target = "\(path)/order-17"
            let answer = try await fixture.ask("PATCH", target, #"{"state":"cancelled"}"#, key: Fixture.publishKey)
            #expect(try member(answer, "state") == .string("cancelled"))
            #expect(try member(answer, "planned") == .integer(3))
            for keys in homes {
                let state = keys.send(SendKey(app: "shop", id: "order-17"))
                #expect(try await streams.outcomes.ledger(state, tag: keys.tag)?.state == .cancelled)
            }
        }
    }

    @Test func aFullMailboxSaysWhenToComeBack() async throws {
        try await Fixture.with { fixture in
            let body = #"{"id":"late","target":{"topic":"news"},"notification":{"title":"Hi"}}"#
            let keys = fixture.installation.streams.home(app: "shop", "late")
            for _ in 0..<(StreamLimits.mailboxEntriesMax / 1_000) {
                let adds = (0..<1_000).map { _ in RedisCommand("XADD", .text(keys.mailbox(.bulk)), "*", "m", "x") }
                _ = try await fixture.client.transaction(adds, on: keys.tag)
            }
            let answer = try await fixture.ask("POST", path, body, key: Fixture.publishKey)
            #expect(answer.status == 503)
            #expect(Int(answer.header("retry-after") ?? "") != nil)
        }
    }

    @Test func `A send of an app that no dispatcher has yet leaves nothing, and goes out later under its id`()
        async throws
    {
        try await Fixture.with { fixture in
            let routes = fixture.installation.streams.routes
            func publish(_ id: String) async throws -> Answer {
                let body = send.replacing(#"{"target""#, with: #"{"id":"\#(id)","target""#)
                return try await fixture.ask("POST", path, body, key: Fixture.publishKey)
            }
            // No dispatcher has run.
            #expect(try await publish("early").status == 202)
            _ = try await routes.number(of: try #require(Route("news/fcm/production")))
            let refused = try await publish("order")
            #expect(refused.status == 503, "\(refused.text)")
            #expect(try member(refused, "detail") == "no dispatcher has the app yet")
            #expect(Int(refused.header("retry-after") ?? "") ?? 0 > 0)
            let gorush = #"{"notifications":[{"platform":2,"message":"Hi","tokens":["t"]}]}"#
            let other = try await fixture.ask("POST", "/v1/apps/shop/gorush/api/push", gorush, key: Fixture.publishKey)
            #expect(other.status == 503, "\(other.text)")
            #expect(try await fixture.commands(.bulk).map(\.id) == ["early"])
            _ = try await routes.number(of: try #require(Route("shop/fcm/production")))
            let sent = try await publish("order")
            #expect(sent.status == 202, "\(sent.text)")
            #expect(try member(sent, "duplicate") == false)
            #expect(try await fixture.commands(.bulk).map(\.id).sorted() == ["early", "order"])
        }
    }

    @Test func aTestGoesToOnesOwnDevice() async throws {
        try await Fixture.with { fixture in
            let (anna, bert) = (try Fixture.token("anna"), try Fixture.token("bert"))
            let test = "\(Fixture.path("a1"))/test"
            #expect(try await fixture.ask("POST", test, key: anna).status == 404)
            _ = try await fixture.ask("PUT", Fixture.path("a1"), #"{"provider":"fcm","token":"t"}"#, key: anna)
            #expect(try await fixture.ask("POST", test, key: bert).status == 404)
            #expect(try await fixture.ask("POST", test, key: Fixture.shopKey).status == 403)
            #expect(try await fixture.ask("POST", test, key: anna).status == 202)
            #expect(try await fixture.ask("POST", test, #"{"title":"Mine"}"#, key: Fixture.publishKey).status == 202)
            let broken = try await fixture.ask("POST", test, #"{"title":"a\u0000b","body":"\u0000"}"#, key: anna)
            #expect(broken.status == 422 && pointers(broken) == ["#/title", "#/body"], "\(broken.text)")
            let commands = try await fixture.commands(.express)
            #expect(commands.map(\.target) == [.devices(["a1"]), .devices(["a1"])])
            #expect(Set(commands.map(\.notification.title)) == ["Test", "Mine"])
        }
    }
}
