import ApusCore
import ApusMessages
import ApusRedis
import ApusTestKit
import Testing

@testable import ApusStreams

@Suite struct SendListTests {
    private static let shop = AppID.shop

    private static func row(_ milliseconds: Int64, _ send: String) throws -> SendListPage.Row {
        let place = SendListCursor(acceptedAt: UnixMilliseconds(milliseconds), send: send)
        return SendListPage.Row(
            place: place,
            ledger: try #require(SendLedger(fields: [("app", "shop")])),
            tag: HashTag(ofKey: "a")
        )
    }

    @Test func `Parts are merged by time, and no further than the first shard that has looked no further`() throws {
        let one = SendListPage(rows: [try Self.row(9, "a"), try Self.row(3, "b")], next: nil)
        let other = SendListPage(
            rows: [try Self.row(8, "c"), try Self.row(5, "d")],
            next: SendListCursor(acceptedAt: UnixMilliseconds(4), send: "x")
        )
        let all = SendListPage(merging: [one, other], limit: 10)
        #expect(all.rows.map(\.send) == ["a", "c", "d"])
        // The sends of the other shard between 4 and 3 are not known yet.
        #expect(all.next == SendListCursor(acceptedAt: UnixMilliseconds(4), send: "x"))
        let first = SendListPage(merging: [one, other], limit: 2)
        #expect(first.rows.map(\.send) == ["a", "c"])
        #expect(first.next == SendListCursor(acceptedAt: UnixMilliseconds(8), send: "c"))
        #expect(SendListPage(merging: [one], limit: 2) == one)
    }

    @Test func `A cursor is read as it is written, and nothing else is`() {
        let cursor = SendListCursor(acceptedAt: UnixMilliseconds(1_764_072_000_000), send: "news-17:b")
        #expect(SendListCursor("\(cursor)") == cursor)
        for text in ["", "17", "x-a", "-1-a", "17-", "17-a b"] { #expect(SendListCursor(text) == nil, "\(text)") }
    }

    /// Accepts a send as a dispatcher does.
    private static func accept(_ id: String, in fixture: StreamsFixture, due: UnixMilliseconds? = nil) async throws {
        let command = fixture.command(id: id)
        let keys = fixture.streams.home(app: "shop", id)
        let entry = StreamEntry(stream: keys.mailbox(.bulk), id: "1-1", message: [], deliveries: 1)
        let accepted = try await fixture.streams.mailboxes.accept(
            command,
            identity: SendIdentity(of: command, source: "\(keys.mailbox(.bulk))/\(id)"),
            routes: [RouteNumber(7)],
            from: entry,
            by: fixture.consumer("me"),
            due: due,
        )
        #expect(accepted.admission == .new)
    }

    @Test
    func `A send that uses an id again has a place of its own in the list, however old that of the one before is`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let keys = fixture.streams.home(app: "shop", "again")
            let earlier = RedisCommand("ZADD", .text(keys.sends(of: "shop")), "1600000000000", "again")
            _ = try await fixture.client.send(earlier, on: keys.tag)
            try await Self.accept("again", in: fixture)
            let rows = try await fixture.streams.sendLists.page(of: Self.shop, limit: 10).rows
            #expect(rows.map(\.send) == ["again"])
            #expect(rows.first?.place.acceptedAt == rows.first?.ledger.acceptedAt)
        }
    }

    @Test func `Every send is listed once, page by page, and by its state`() async throws {
        try await StreamsFixture.with { fixture in
            let lists = fixture.streams.sendLists
            #expect(try await lists.page(of: Self.shop, limit: 10) == SendListPage(rows: [], next: nil))
            let ids = (0..<25).map { "send-\($0)" }
            for id in ids { try await Self.accept(id, in: fixture) }
            let later = UnixMilliseconds(4_000_000_000_000)
            try await Self.accept("later", in: fixture, due: later)
            var (found, cursor) = ([String](), SendListCursor?.none)
            repeat {
                let page = try await lists.page(of: Self.shop, limit: 4, from: cursor)
                #expect(page.rows.map(\.place) == page.rows.map(\.place).sorted(by: >))
                found += page.rows.map(\.send)
                cursor = page.next
            } while cursor != nil
            #expect(found.count == 26 && Set(found) == Set(ids + ["later"]))
            #expect(try await lists.page(of: try AppID("news"), limit: 10).rows.isEmpty)

            let searched = try await lists.page(of: Self.shop, limit: 100, search: "d-2")
            #expect(
                Set(searched.rows.map(\.send)) == ["send-2", "send-20", "send-21", "send-22", "send-23", "send-24"]
            )
            let scheduled = try await lists.page(of: Self.shop, limit: 100, state: .scheduled)
            #expect(scheduled.rows.map(\.send) == ["later"] && scheduled.rows.first?.ledger.notBefore == later)
            let status = SendStatus(send: "later", ledger: scheduled.rows[0].ledger, now: UnixMilliseconds(1))
            #expect(status.phase == .scheduled && status.notBefore == later && !status.isOver)

            // A send that was cancelled is so when it has ended, too.
            let (keys, key) = (fixture.streams.home(app: "shop", "send-3"), SendKey(app: "shop", id: "send-3"))
            _ = try await fixture.streams.control.apply(.cancel, to: key, at: keys)
            let end = RedisCommand("HSET", .text(keys.send(key)), "state", "done")
            _ = try await fixture.client.send(end, on: keys.tag)
            let cancelled = try await lists.page(of: Self.shop, limit: 100, state: .cancelled)
            #expect(cancelled.rows.map(\.send) == ["send-3"])
            let ended = SendStatus(send: "send-3", ledger: cancelled.rows[0].ledger, now: UnixMilliseconds(1))
            #expect(ended.phase == .cancelled && ended.isOver)
            #expect(try await lists.page(of: Self.shop, limit: 100, state: .planning).rows.count == 24)
            #expect(try await lists.page(of: Self.shop, limit: 100, state: .done).rows.isEmpty)

            // A ledger that is gone leaves its send out.
            _ = try await fixture.client.send(RedisCommand("DEL", .text(keys.send(key))), on: keys.tag)
            #expect(try await lists.page(of: Self.shop, limit: 100).rows.count == 25)
        }
    }

    @Test func `Sends of one moment are listed once on a server whose language orders texts in another way`()
        async throws
    {
        let locale = try EnglishLocale()
        try await RedisServer.with(RedisServer.Options(environment: locale.environment)) { server in
            try await StreamsFixture.with(server) { fixture in
                let keys = fixture.streams.keys(shard: 0)
                for id in ["a", "B", "b", "A", "ab"] {
                    let list = RedisCommand("ZADD", .text("\(keys.tag)sends:shop"), "1700000000000", .text(id))
                    _ = try await fixture.client.send(list, on: keys.tag)
                    let key = keys.send(SendKey(app: "shop", id: id))
                    let ledger = RedisCommand("HSET", .text(key), "app", "shop", "state", "done")
                    _ = try await fixture.client.send(ledger, on: keys.tag)
                }
                var (found, cursor) = ([String](), SendListCursor?.none)
                repeat {
                    let page = try await fixture.streams.sendLists.page(of: Self.shop, limit: 1, from: cursor)
                    found += page.rows.map(\.send)
                    cursor = page.next
                } while cursor != nil
                #expect(found == ["b", "ab", "a", "B", "A"])
            }
        }
    }

    @Test func `A page reads a few more ledgers than it shows, not a page of each shard`() async throws {
        try await StreamsFixture.with { fixture in
            for number in 0..<300 { try await Self.accept("send-\(number)", in: fixture) }
            let keys = fixture.streams.home(app: "shop", "s")
            _ = try await fixture.client.send(RedisCommand("CONFIG", "RESETSTAT"), on: keys.tag)
            let page = try await fixture.streams.sendLists.page(of: Self.shop, limit: 100)
            #expect(page.rows.count == 100 && page.next != nil)
            let statistics = try await fixture.client.send(RedisCommand("INFO", "commandstats"), on: keys.tag).root
                .string
            let reads = statistics?.firstMatch(of: /cmdstat_hgetall:calls=([0-9]+)/).flatMap { Int($0.1) }
            // Of each of the two shards its share and three standard deviations; a page of each would be 200.
            #expect(try #require(reads) <= 150)
        }
    }

    @Test func `A page of ten thousand sends takes one call of each shard, and so does a search among them`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            // Ledgers as they are kept, in the lists of both shards; a list has at most 5,000.
            for shard in 0..<2 {
                let keys = fixture.streams.keys(shard: shard)
                for start in stride(from: 0, to: 5_000, by: 500) {
                    let ids = (start..<(start + 500)).map { "send-\(shard)-\($0)" }
                    let places = ids.enumerated().flatMap { index, id -> [RedisArgument] in
                        [.text("\(1_700_000_000_000 + start + index)"), .text(id)]
                    }
                    let add = RedisCommand("ZADD", [.text(keys.sends(of: "shop"))] + places)
                    _ = try await fixture.client.send(add, on: keys.tag)
                    for id in ids {
                        let key = SendKey(app: "shop", id: id)
                        let fields: [RedisArgument] = [
                            .text(keys.send(key)), "app", "shop", "state", "done", "planned", "1000", "accepted",
                            "1700000000000", "apns/accepted/none", "1000",
                        ]
                        _ = try await fixture.client.send(RedisCommand("HSET", fields), on: keys.tag)
                    }
                }
            }
            let tag = fixture.streams.keys(shard: 0).tag
            _ = try await fixture.client.send(RedisCommand("CONFIG", "RESETSTAT"), on: tag)
            let lists = fixture.streams.sendLists
            let page = try await lists.page(of: Self.shop, limit: 50)
            #expect(page.rows.count == 50)
            let later = try await lists.page(of: Self.shop, limit: 50, from: page.next)
            #expect(later.rows.count == 50 && Set(later.rows.map(\.send)).isDisjoint(with: page.rows.map(\.send)))
            // The oldest is found behind all others.
            let found = try await lists.page(of: Self.shop, limit: 50, search: "send-1-0")
            #expect(found.rows.map(\.send) == ["send-1-0"] && found.next == nil)
            let statistics = try await fixture.client.send(RedisCommand("INFO", "commandstats"), on: tag).root.string
            func calls(_ name: String) throws -> Int {
                let pattern = try Regex("cmdstat_\(name):calls=([0-9]+)", as: (Substring, Substring).self)
                return statistics?.firstMatch(of: pattern).flatMap { Int($0.1) } ?? 0
            }
            // Two pages and a search of two shards each.
            #expect(try calls("fcall_ro") == 6)
            // Each page reads its shards' shares; the search reads what it finds, and names only of all others.
            #expect(try calls("hgetall") <= 2 * 2 * (25 + 15 + 4) + 1)
            #expect(try calls("zrevrangebyscore") <= 4 + 2 * (5_000 / 100 + 1))
        }
    }

    @Test func `Direct sends that ended last are read from receipts, and none that has a ledger`() async throws {
        try await StreamsFixture.with { fixture in
            func write(
                _ id: String,
                _ kind: SendReceipt.Kind,
                planned: UInt64 = 2,
                app: String = "shop",
                duplicateOf earlier: String = "",
                problem: Problem? = nil,
            ) async throws {
                var receipt = SendReceipt(id: "\(kind):\(id)", send: id, app: app, kind: kind)
                (receipt.planned, receipt.duplicateOf, receipt.problem) = (planned, earlier, problem)
                let keys = fixture.streams.home(app: app, id)
                let add = RedisCommand("XADD", .text(keys.receipts), "*", "m", .bytes(try receipt.encode()))
                _ = try await fixture.client.send(add, on: keys.tag)
                // Redis orders receipts of different shards by their milliseconds.
                try await Task.sleep(for: .milliseconds(2))
            }
            let lists = fixture.streams.sendLists
            #expect(try await lists.latestDirect(of: Self.shop, limit: 3).isEmpty)
            for id in ["first", "second"] { try await write(id, .final) }
            try await write("other-app", .final, app: "news")
            try await write("to-many", .final, planned: 1_000)
            try await write("tried", .dryRun)
            try await write("under-way", .progress)
            try await Self.accept("with-retries", in: fixture)
            try await write("with-retries", .final)
            try await write("broken", .refused, planned: 0)
            // Its command came again, and another one under its id.
            try await write("first", .refused, planned: 0, duplicateOf: "first")
            let conflict = Problem(code: "conflict", field: "id", detail: "names another command")
            try await write("first", .refused, planned: 0, problem: conflict)
            let latest = try await lists.latestDirect(of: Self.shop, limit: 3)
            #expect(latest.map(\.status.send) == ["broken", "second", "first"])
            #expect(latest.map(\.at) == latest.map(\.at).sorted(by: >))
            #expect(try await lists.latestDirect(of: Self.shop, limit: 1).map(\.status.send) == ["broken"])
            // Of each shard the newest receipts only are searched.
            for number in 0..<(4 * StreamLimits.receiptsPerShardMax) {
                try await write("flood-\(number)", .final, app: "news")
            }
            #expect(try await lists.latestDirect(of: Self.shop, limit: 3).isEmpty)
        }
    }

    @Test func `A shard keeps the last sends of an app only`() async throws {
        try await StreamsFixture.with { fixture in
            let keys = fixture.streams.home(app: "shop", "s")
            let others = (0..<StreamLimits.sendsListedMax).flatMap { number -> [RedisArgument] in
                ["9000000000000", .text("other-\(number)")]
            }
            let add = RedisCommand("ZADD", [.text(keys.sends(of: "shop"))] + others)
            _ = try await fixture.client.send(add, on: keys.tag)
            _ = try await fixture.client.send(
                RedisCommand("ZADD", .text(keys.sends(of: "shop")), "1", "ancient"),
                on: keys.tag
            )
            try await Self.accept("s", in: fixture)
            let count = RedisCommand("ZCARD", .text(keys.sends(of: "shop")))
            #expect(
                try await fixture.client.send(count, on: keys.tag).root.integer == Int64(StreamLimits.sendsListedMax)
            )
            let ancient = RedisCommand("ZSCORE", .text(keys.sends(of: "shop")), "ancient")
            #expect(try await fixture.client.send(ancient, on: keys.tag).root.string == nil)
        }
    }

    @Test func `A send that has not ended stays in the list, however old it is or many are newer`() async throws {
        try await StreamsFixture.with { fixture in
            let keys = fixture.streams.home(app: "shop", "s")
            func add(_ score: Int64, _ names: [String]) async throws {
                let members = names.flatMap { [RedisArgument.integer(score), .text($0)] }
                let command = RedisCommand("ZADD", [.text(keys.sends(of: "shop"))] + members)
                _ = try await fixture.client.send(command, on: keys.tag)
            }
            func isListed(_ name: String) async throws -> Bool {
                let command = RedisCommand("ZSCORE", .text(keys.sends(of: "shop")), .text(name))
                return try await fixture.client.send(command, on: keys.tag).root.string != nil
            }
            // Accepted long ago, for a time to come; and one of that day that has ended.
            try await add(1, ["scheduled", "ended"])
            let open = RedisCommand("SADD", .text(keys.openSends), "shop/scheduled")
            _ = try await fixture.client.send(open, on: keys.tag)
            try await Self.accept("s", in: fixture)
            #expect(try await isListed("scheduled"))
            #expect(try await !isListed("ended"))
            // Beyond the limit the oldest that has ended goes.
            let now = SystemClock().now().value
            let names = (0..<100).map { "t\($0)" }
            let next = try #require(names.first { fixture.streams.home(app: "shop", $0).tag == keys.tag })
            try await add(now - 1_000, ["first"])
            try await add(now, (0..<StreamLimits.sendsListedMax - 2).map { "other-\($0)" })
            try await Self.accept(next, in: fixture)
            #expect(try await isListed("scheduled"))
            #expect(try await !isListed("first"))
        }
    }

    @Test func `Sends that have ended leave the list also where many that have not are older, and none of these does`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let keys = fixture.keys
            let ids = (0..<100).map { "s\($0)" }.filter { fixture.streams.home(app: "shop", $0) == keys }
            func add(_ score: Int64, _ names: [String]) async throws {
                let members = names.flatMap { [RedisArgument.integer(score), .text($0)] }
                let command = RedisCommand("ZADD", [.text(keys.sends(of: "shop"))] + members)
                _ = try await fixture.client.send(command, on: keys.tag)
            }
            func listed(_ names: [String]) async throws -> Int {
                let command = RedisCommand("ZMSCORE", [.text(keys.sends(of: "shop"))] + names.map { .text($0) })
                return try await fixture.client.send(command, on: keys.tag).root.children.count { $0.string != nil }
            }
            let open = (0..<33).map { "open-\($0)" }
            let members = open.map { RedisArgument.text("shop/\($0)") }
            _ = try await fixture.client.send(RedisCommand("SADD", [.text(keys.openSends)] + members), on: keys.tag)
            try await add(1, open)
            try await add(2, ["ended"])
            try await Self.accept(ids[0], in: fixture)
            #expect(try await listed(["ended"]) == 0)
            try await add(SystemClock().now().value, (0..<2 * StreamLimits.sendsListedMax).map { "other-\($0)" })
            try await Self.accept(ids[1], in: fixture)
            #expect(try await listed(open) == open.count)
        }
    }

    @Test
    func `What was done with apps' keys is in a stream of its own, and is read in order with the rest`()
        async throws
    {
        try await StreamsFixture.with { fixture in
            let audit = fixture.streams.audit
            let sources: [AuditEntry.Source] = [.http, .commandLine, .http, .http, .console, .http]
            for (number, source) in sources.enumerated() {
                try await audit.record(AuditEntry("x", of: "\(number)", by: Operator("a", through: source)))
                // Each stream numbers its entries of one millisecond by itself.
                try await Task.sleep(for: .milliseconds(2))
            }
            let all = try await audit.newest(10)
            #expect(all.map(\.object) == ["5", "4", "3", "2", "1", "0"])
            #expect(all.map(\.source) == sources.reversed())
            #expect(try await audit.newest(2, before: all[1].id).map(\.object) == ["3", "2"])
            #expect(try await audit.newest(2, object: "0").map(\.object) == ["0"])
            for (key, count) in [(StreamKeys.audit, 2), (StreamKeys.keyAudit(of: ""), 4)] {
                let length = RedisCommand("XLEN", .text(key))
                #expect(try await fixture.client.send(length, on: HashTag(ofKey: key)).root.integer == Int64(count))
            }
        }
    }

    @Test func `What commands send to an app is in its own trail, and what else operators do is not`() async throws {
        try await StreamsFixture.with { fixture in
            let audit = fixture.streams.audit
            let (script, person) = (Operator("cron", through: .commandLine), Operator("ada", through: .console))
            for (action, someone) in [("send.publish", script), ("send.recall", script), ("send.publish", person)] {
                try await audit.record(AuditEntry(action, of: "s", app: "shop", by: someone))
            }
            for (key, count) in [(StreamKeys.keyAudit(of: "shop"), 1), (StreamKeys.audit, 2)] {
                let length = RedisCommand("XLEN", .text(key))
                #expect(try await fixture.client.send(length, on: HashTag(ofKey: key)).root.integer == Int64(count))
            }
            #expect(try await audit.newest(9).count == 3)
        }
    }

    @Test func `One app's keys push no entry of another's out of their trail`() async throws {
        try await StreamsFixture.with { fixture in
            let audit = fixture.streams.audit
            func entry(_ object: String, _ app: String) -> AuditEntry {
                AuditEntry("device.forget", of: object, app: app, by: Operator("key", through: .http))
            }
            try await audit.record(entry("quiet", "news"))
            try await audit.record(entry("first", "shop"))
            let key = StreamKeys.keyAudit(of: "shop")
            // All but two of what an app may have. Their fields are those of no entry, which is passed over.
            let fill = RedisCommand(
                "EVAL",
                "for _ = 1, ARGV[1] do redis.call('XADD', KEYS[1], '*', 'x', '') end",
                1,
                .text(key),
                .integer(StreamLimits.keyAuditEntriesMax - 2),
            )
            _ = try await fixture.client.send(fill, on: HashTag(ofKey: key))
            try await audit.record(entry("last", "shop"))
            #expect(try await audit.newest(9).map(\.object).sorted() == ["first", "last", "quiet"])
            try await audit.record(entry("one more", "shop"))
            let length = RedisCommand("XLEN", .text(key))
            let count = try await fixture.client.send(length, on: HashTag(ofKey: key)).root.integer
            #expect(count == Int64(StreamLimits.keyAuditEntriesMax))
            #expect(try await audit.newest(9, app: "shop").map(\.object) == ["one more", "last"])
            #expect(try await audit.newest(9, app: "news").map(\.object) == ["quiet"])
        }
    }

    @Test func `What operators did is read newest first, and the oldest entries go`() async throws {
        try await StreamsFixture.with { fixture in
            let audit = fixture.streams.audit
            for number in 0..<5 {
                try await audit.record(
                    AuditEntry(
                        "send.pause",
                        of: "s-\(number)",
                        app: number == 2 ? "news" : "shop",
                        by: Operator("key ops", through: .console)
                    )
                )
            }
            #expect(try await audit.newest(3).map(\.object) == ["s-4", "s-3", "s-2"])
            let own = try await audit.newest(2, app: "shop")
            #expect(own.map(\.object) == ["s-4", "s-3"] && own[0].actor == "key ops" && own[0].source == .console)
            #expect(try await audit.newest(9, app: "shop", before: own[1].id).map(\.object) == ["s-1", "s-0"])
            #expect((own[0].at?.value ?? 0) > 1_700_000_000_000)
            let long = AuditEntry(
                "device.forget",
                of: String(repeating: "x", count: 2_000),
                by: Operator("a", through: .http)
            )
            #expect(long.object.utf8.count == StreamLimits.auditTextBytesMax)

            // Entries that are too old go with the next one.
            let key = "apus:other-audit"
            let call = RecordAuditCall(
                keys: [key],
                actor: "a",
                source: "cli",
                action: "x",
                app: "",
                object: "",
                detail: ""
            )
            let tag = HashTag(ofKey: key)
            _ = try await fixture.client.send(RedisCommand("XADD", .text(key), "1-1", "action", "old"), on: tag)
            _ = try await fixture.client.call(call, on: tag)
            #expect(try await fixture.client.send(RedisCommand("XLEN", .text(key)), on: tag).root.integer == 1)
        }
    }
}

extension AppID {
    fileprivate static var shop: AppID {
        guard let app = try? AppID("shop") else { preconditionFailure("it is valid") }
        return app
    }
}
