import ApusCommand
import ApusCore
import ApusTerminal
import Testing

/// Tests the diagnosis of a server's facts, without a server.
@Suite struct DiagnosisTests {
    /// A server as it should be.
    private static let info = [
        "redis_version": "7.0.15", "maxmemory_policy": "noeviction", "evicted_keys": "0", "used_memory": "52428800",
        "maxmemory": "104857600", "loading": "0", "aof_enabled": "1", "aof_last_write_status": "ok",
        "rdb_last_bgsave_status": "ok", "role": "master", "connected_slaves": "1", "connected_clients": "12",
        "maxclients": "10000",
    ]
    private static let settings = ["hash-max-listpack-value": "512", "appendfsync": "everysec"]

    private static func findings(
        _ info: [String: String] = [:],
        settings: [String: String] = [:],
        ahead: Int64 = 0,
    ) -> [Diagnosis.Finding] {
        let facts = RedisServerFacts(
            info: Self.info.merging(info) { _, new in new },
            settings: Self.settings.merging(settings) { _, new in new },
            clockAheadMilliseconds: ahead,
        )
        return Diagnosis.redis(facts, at: "here:6379")
    }

    @Test func `Dead letters are told of with what can be done, and none say nothing`() {
        #expect(Diagnosis.deadLetters(0).isEmpty)
        let findings = Diagnosis.deadLetters(1_234)
        #expect(findings.map(\.verdict) == [.warn] && findings[0].detail == "1,234 wait for a decision")
        for command in ["apus dead list", "apus dead replay", "apus dead purge"] {
            #expect(findings[0].cure.contains(command))
        }
    }

    @Test func `A server as it should be has nothing to cure`() {
        let findings = Self.findings()
        #expect(findings.count == 8)
        #expect(findings.allSatisfy { $0.verdict == .ok && $0.cure.isEmpty && $0.subject == "here:6379" })
        #expect(findings.first { $0.check == .memory }?.detail == "50 MiB of 100 MiB used")
        #expect(findings.first { $0.check == .replication }?.detail == "primary, 1 replica")
        #expect(findings.first { $0.check == .persistence }?.detail == "append-only file, appendfsync everysec")
    }

    /// One thing that is wrong.
    struct Ill: Sendable {
        let check: Diagnosis.Check
        let verdict: Diagnosis.Verdict
        var info: [String: String] = [:]
        var settings: [String: String] = [:]
        var ahead: Int64 = 0
        let words: String
    }

    @Test(arguments: [
        Ill(check: .version, verdict: .fail, info: ["redis_version": "6.2.14"], words: "6.2.14"),
        Ill(check: .version, verdict: .fail, info: ["redis_version": "nonsense"], words: "nonsense"),
        Ill(check: .eviction, verdict: .fail, info: ["maxmemory_policy": "volatile-lru"], words: "volatile-lru"),
        Ill(check: .eviction, verdict: .warn, info: ["evicted_keys": "1234"], words: "1,234"),
        Ill(check: .memory, verdict: .warn, info: ["maxmemory": "0"], words: "without a limit"),
        Ill(check: .memory, verdict: .warn, info: ["used_memory": "83886080"], words: "80 MiB of 100 MiB"),
        Ill(check: .memory, verdict: .fail, info: ["used_memory": "99614720"], words: "95 MiB of 100 MiB"),
        Ill(check: .persistence, verdict: .warn, info: ["loading": "1"], words: "loading its data"),
        Ill(check: .persistence, verdict: .warn, info: ["aof_enabled": "0"], words: "lost when Redis restarts"),
        Ill(check: .persistence, verdict: .warn, settings: ["appendfsync": "no"], words: "never synced"),
        Ill(check: .persistence, verdict: .fail, info: ["aof_last_write_status": "err"], words: "append-only file"),
        Ill(check: .persistence, verdict: .fail, info: ["rdb_last_bgsave_status": "err"], words: "snapshot"),
        Ill(
            check: .replication,
            verdict: .fail,
            info: ["role": "slave", "master_host": "first", "master_port": "6380"],
            words: "first:6380"
        ),
        Ill(check: .clients, verdict: .warn, info: ["connected_clients": "8000"], words: "8,000 of 10,000"),
        Ill(check: .clients, verdict: .fail, info: ["connected_clients": "9500"], words: "9,500 of 10,000"),
        Ill(check: .listpack, verdict: .warn, settings: ["hash-max-listpack-value": "64"], words: "is 64"),
        Ill(check: .clock, verdict: .warn, ahead: 1_001, words: "1001 ms ahead of"),
        Ill(check: .clock, verdict: .warn, ahead: -60_000, words: "60000 ms behind"),
        Ill(check: .clock, verdict: .fail, ahead: -60_001, words: "60001 ms behind"),
    ])
    func `Every fault is reported with a cure, and nothing else is`(_ ill: Ill) throws {
        let findings = Self.findings(ill.info, settings: ill.settings, ahead: ill.ahead)
        let wrong = findings.filter { $0.verdict != .ok }
        #expect(wrong.count == 1)
        let finding = try #require(wrong.first)
        #expect(finding.check == ill.check && finding.verdict == ill.verdict)
        #expect(finding.detail.contains(ill.words) && !finding.cure.isEmpty, "\(finding.sentence)")
    }

    @Test func `A master behind Sentinels whose replicas are away or still copy is warned of, and no other master is`()
    {
        func replication(_ info: [String: String], mayFollow: Bool = true) -> Diagnosis.Finding? {
            let facts = RedisServerFacts(info: Self.info.merging(info) { _, new in new })
            return Diagnosis.redis(facts, at: "here", mayFollow: mayFollow).first { $0.check == .replication }
        }
        func replica(_ state: String) -> [String: String] {
            ["slave0": "ip=10.0.0.2,port=6379,state=\(state),offset=14,lag=1"]
        }
        for ill in [["connected_slaves": "0"], replica("wait_bgsave")] {
            let finding = replication(ill)
            #expect(finding?.verdict == .warn && finding?.detail.contains("no replica") == true)
            #expect(finding?.cure.isEmpty == false)
            #expect(replication(ill, mayFollow: false)?.verdict == .ok)
            #expect(replication(ill.merging(["cluster_enabled": "1"]) { $1 })?.verdict == .ok)
        }
        #expect(replication(replica("online"))?.verdict == .ok)
    }

    @Test func `A difference of a second between clocks is no fault`() {
        #expect(Self.findings(ahead: 1_000).allSatisfy { $0.verdict == .ok })
        #expect(Self.findings(ahead: -1_000).allSatisfy { $0.verdict == .ok })
    }

    @Test func `A user without the right to read settings is told what to check`() {
        let findings = Diagnosis.redis(RedisServerFacts(info: Self.info), at: "here")
        let wrong = findings.filter { $0.verdict != .ok }
        #expect(wrong.map(\.check) == [.listpack])
        #expect(wrong.first?.detail.contains("CONFIG is not there or not allowed") == true)
    }

    @Test func `The answer to INFO is read without headings and unknown lines`() {
        let text =
            "# Server\r\nredis_version:7.0.15\r\nos:Linux 6 x86\r\n\r\n# Memory\r\nused_memory:1\r\n"
            + "no colon\r\nx:a:b\r\n"
        let fields = RedisServerFacts.fields(ofInfo: text)
        #expect(fields == ["redis_version": "7.0.15", "os": "Linux 6 x86", "used_memory": "1", "x": "a:b"])
    }

    @Test func `Lines and JSON say the same`() {
        let diagnosis = Diagnosis([
            .init(.ok, .version, "here", "Redis 7"), .init(.warn, .memory, "here", "much", cure: "Get more"),
            .init(.fail, .configuration, "bad"),
        ])
        #expect(
            diagnosis.lines == [
                "      CHECK          OF    FOUND", "ok    version        here  Redis 7",
                "warn  memory         here  much", "                           → Get more",
                "fail  configuration        bad", "", "1 ok, 1 warning, 1 failed",
            ]
        )
        let findings = diagnosis.json["findings"]?.array ?? []
        #expect(findings.map { $0["verdict"]?.string } == ["ok", "warn", "fail"])
        #expect(findings[1]["cure"]?.string == "Get more" && findings[0]["cure"] == nil && findings[2]["of"] == nil)
        #expect(diagnosis.json["failed"] == 1 && diagnosis.json["warnings"] == 1 && diagnosis.json["ok"] == 1)
    }

    @Test func `Entries that nobody reads fail, entries that wait behind others warn, and the rest is well`() {
        func reading(_ name: String, unread: Int64?, read: Int64?) -> StreamReading {
            StreamReading(name, service: "dispatcher", unreadMilliseconds: unread, readMillisecondsAgo: read)
        }
        let well = Diagnosis.streams([
            reading("in:bulk", unread: nil, read: nil), reading("in:bulk", unread: 9_000, read: 60_000),
            reading("in:express", unread: nil, read: 90_000),
        ])
        #expect(well.map(\.verdict) == [.ok] && well.allSatisfy { $0.check == .streams && $0.cure.isEmpty })
        let ill = Diagnosis.streams([
            reading("in:bulk", unread: 70_000, read: 1_000), reading("in:bulk", unread: nil, read: nil),
            reading("in:express", unread: 11_000, read: 20_000), reading("in:express", unread: 12_000, read: 1_000),
            reading("register", unread: 11_000, read: nil),
        ])
        #expect(ill.map(\.verdict) == [.warn, .fail, .fail])
        #expect(ill.map(\.subject) == ["in:bulk", "in:express", "register"])
        #expect(ill[0].detail.contains("in 1 of 2 shards") && ill[1].detail.contains("in 2 of 2 shards"))
        #expect(ill[2].detail.contains("nobody reads there"))
        #expect(ill.allSatisfy { !$0.cure.isEmpty })
    }

    @Test func `Entries that were read and are not finished, late retries and paused sends are told`() {
        func reading(pending: Int64?, read: Int64?, unread: Int64? = nil) -> StreamReading {
            StreamReading(
                "in:bulk",
                service: "dispatcher",
                unreadMilliseconds: unread,
                pendingMilliseconds: pending,
                readMillisecondsAgo: read
            )
        }
        #expect(Diagnosis.streams([reading(pending: 899_000, read: 1)]).map(\.verdict) == [.ok])
        let stuck = Diagnosis.streams([reading(pending: 960_000, read: 1_000), reading(pending: nil, read: 1)])
        #expect(stuck.map(\.verdict) == [.warn])
        #expect(stuck[0].detail == "read and not finished for up to 16m00s in 1 of 2 shards")
        let left = Diagnosis.streams([reading(pending: 960_000, read: 60_000, unread: 20_000)])
        #expect(left.map(\.verdict) == [.fail, .fail] && left.allSatisfy { !$0.cure.isEmpty })

        func due(_ late: Int64?) -> StreamBacklog.Row {
            StreamBacklog.Row(name: "due", shard: "", backlog: 3, oldestMilliseconds: late)
        }
        #expect(Diagnosis.overdue([due(nil), due(9_000)]) == [])
        #expect(Diagnosis.overdue([due(nil), due(70_000)]).map(\.verdict) == [.warn])
        #expect(Diagnosis.overdue([due(960_000)]).map(\.verdict) == [.fail])

        var held = StreamBacklog.Row(name: "held", shard: "", backlog: 0)
        held.sends = 0
        #expect(Diagnosis.held([held, due(nil)]) == [])
        (held.sends, held.backlog) = (1, 1)
        #expect(Diagnosis.held([held]).map(\.detail) == ["1 paused send holds 1 entry"])
        let both = Diagnosis.held([held, held])
        #expect(both.map(\.verdict) == [.warn] && both[0].detail == "2 paused sends hold 2 entries")
    }
}
