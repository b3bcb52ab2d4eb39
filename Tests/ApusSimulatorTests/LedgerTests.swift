import ApusCore
import ApusSimulator
import Testing

@Suite struct LedgerTests {
    private let ledger = SimulatorLedger(shards: 2)

    private func record(
        _ token: String,
        send: String = "s1",
        status: Int = 200,
        shard: Int = 0,
        provider: Provider = .fcm,
        time: Int64 = 1,
        id: LedgerShard.ID = .none,
        fault: Fault? = nil,
        in ledger: SimulatorLedger? = nil,
    ) throws {
        let bytes = provider == .apns ? try #require(Hexadecimal.decode(token)) : Array(token.utf8)
        let send = Array(send.utf8)
        (ledger ?? self.ledger).shard(shard).record(
            provider == .apns ? .apns : .fcm,
            token: bytes.span,
            isRaw: provider == .apns,
            id: id,
            send: send.span,
            status: status,
            fault: fault,
            time: time,
        )
    }

    @Test func anEntryTakes64Bytes() { #expect(SimulatorLedger.entryBytes == 64) }

    @Test func whatIsWrittenIsReadBack() throws {
        let token = String(repeating: "0f", count: 32)
        try self.record(
            token,
            send: "campaign-1",
            status: 410,
            provider: .apns,
            time: 1_800_000_000_000_000_123,
            id: .uuid(0x0123_4567_89ab_cdef, 0x0123_4567_89ab_cdef),
            fault: .unavailable,
        )
        let entry = try #require(self.ledger.snapshot.entries.first)
        #expect(entry.token == token)
        #expect(entry.provider == .apns)
        #expect(entry.send == "campaign-1")
        #expect(entry.status == 410)
        #expect(!entry.isAccepted)
        #expect(entry.timeNanoseconds == 1_800_000_000_000_000_123)
        #expect(entry.id == "01234567-89ab-cdef-0123-456789abcdef")
        #expect(entry.fault == "unavailable")
        #expect(entry.digest == TokenDigest(token, provider: .apns))
    }

    @Test(arguments: [0, 1, 7, 8, 31, 32, 33, 163, 4_096])
    func tokensOfEveryLengthAreKept(_ length: Int) throws {
        let token = String(repeating: "t", count: length)
        try self.record(token, status: 0, id: .number(255))
        let entry = try #require(self.ledger.snapshot.entries.first)
        #expect(entry.token == token)
        #expect(entry.status == 0)
        #expect(entry.id == "0:00000000000000ff")
        #expect(entry.digest == TokenDigest(token, provider: .fcm))
    }

    @Test func longTokensMayBeKeptAsDigestsOnly() throws {
        let ledger = SimulatorLedger(keepsLongTokens: false)
        let token = String(repeating: "t", count: 33)
        try self.record(token, in: ledger)
        try self.record("short", in: ledger)
        #expect(ledger.snapshot.entries.map(\.token) == ["", "short"])
        #expect(ledger.snapshot.entries[0].digest == TokenDigest(token, provider: .fcm))
    }

    @Test func aSnapshotStaysAsItWas() throws {
        for number in 0..<5_000 { try self.record("t\(number)", shard: number % 2) }
        let snapshot = self.ledger.snapshot
        for number in 0..<5_000 { try self.record("u\(number)", shard: number % 2) }
        #expect(snapshot.count == 5_000)
        #expect(Set(snapshot.entries.map(\.token)) == Set((0..<5_000).map { "t\($0)" }))
        #expect(self.ledger.snapshot.count == 10_000)
        self.ledger.reset()
        #expect(self.ledger.snapshot.count == 0)
        #expect(self.ledger.snapshot.summary == LedgerSummary())
        #expect(snapshot.count == 5_000)
    }

    @Test func repeatsAreCounted() throws {
        try self.record("a", send: "s1")
        try self.record("a", send: "s2")
        try self.record("b", send: "s1", status: 503)
        try self.record("b", send: "s1", shard: 1)
        try self.record("a", send: "s1", shard: 1, time: 9)
        let snapshot = self.ledger.snapshot
        #expect(
            snapshot.accepted == [
                SendAndToken(send: "s1", token: "a"): 2, SendAndToken(send: "s2", token: "a"): 1,
                SendAndToken(send: "s1", token: "b"): 1,
            ]
        )
        let tally = try #require(snapshot.sends.first)
        #expect(snapshot.sends.map(\.send) == ["s1", "s2"])
        #expect([tally.requests, tally.accepted, tally.repeated] == [4, 3, 1])
        #expect([tally.first, tally.last] == [1, 9])
        #expect(snapshot.firstAcceptances == ["s1": 1, "s2": 1])
    }

    @Test func `The timeline adds shards up and forgets its older half after an hour`() throws {
        let ten = AcceptanceTimeline.bucketNanoseconds
        let start = 1_000_000 * ten
        try self.record("a", time: start + 5)
        try self.record("b", time: start + ten - 1)
        try self.record("c", shard: 1, time: start - 1)
        try self.record("d", shard: 1, provider: .fcm, time: start + 3 * ten)
        try self.record("e", status: 503, time: start)
        // A clock that was set back.
        try self.record("f", time: start - 9 * ten)
        var timeline = self.ledger.snapshot.timeline
        #expect(timeline.start == start - ten)
        #expect(timeline.buckets.map { $0.count(nil) } == [1, 3, 0, 0, 1])
        #expect(timeline.accepted(.fcm, from: start, to: start + ten) == 3)

        let hour = Int64(AcceptanceTimeline.bucketsMax) * ten
        try self.record("g", time: start + hour)
        timeline = self.ledger.snapshot.timeline
        #expect(timeline.accepted(from: start + ten) == 2)
        #expect(timeline.buckets.count <= AcceptanceTimeline.bucketsMax)
    }

    @Test func theSummaryAddsTheShardsUp() throws {
        try self.record("a")
        try self.record("a", status: 410, shard: 1, provider: .fcm, fault: .unavailable)
        try self.record("00", status: 0, shard: 1, provider: .apns, fault: .refusal)
        self.ledger.shard(0).count(.oauth, status: 200, fault: nil)
        self.ledger.shard(0).countConnection()
        self.ledger.shard(1).countConnection()
        let summary = self.ledger.snapshot.summary
        #expect(summary.entries == 3)
        #expect(summary.count(.fcm) == 2)
        #expect(summary.count(.fcm, status: 410) == 1)
        #expect(summary.count(.apns, status: 0) == 1)
        #expect(summary.count(.oauth, status: 200) == 1)
        #expect(summary.faults == ["unavailable": 1, "refusal": 1])
        #expect(summary.connections == 2)
    }

    @Test func aSendBeyondTheLimitIsCut() throws {
        let limit = SimulatorLimits.sendBytesMax
        try self.record("a", send: String(repeating: "s", count: limit))
        try self.record("a", send: String(repeating: "s", count: limit + 1))
        try self.record("a", send: "")
        let sends = self.ledger.snapshot.entries.map(\.send)
        #expect(sends == [String(repeating: "s", count: limit), String(repeating: "s", count: limit), nil])
    }

    private func lines(_ query: [String: String]) throws -> [String] {
        var reader = LedgerReader(self.ledger.snapshot, filter: try #require(LedgerFilter(query)))
        var bytes: [UInt8] = []
        while let more = reader.next() { bytes += more }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    @Test func theReaderFilters() throws {
        try self.record("a", send: "s1", time: 1)
        try self.record("b", send: "s\"2", status: 404, shard: 1, time: 2)
        try self.record("00ff", send: "s1", provider: .apns, time: 3)
        #expect(try self.lines([:]).count == 3)
        #expect(
            try self.lines(["status": "404"])
                == [#"{"time":2,"provider":"fcm","token":"b","send":"s\"2","status":404}"#]
        )
        #expect(
            try self.lines(["provider": "apns", "token": "00FF"])
                == [#"{"time":3,"provider":"apns","token":"00ff","send":"s1","status":200}"#]
        )
        #expect(try self.lines(["since": "2"]).count == 2)
        #expect(try self.lines(["send": "s1"]).count == 2)
        #expect(try self.lines(["limit": "1"]).count == 1)
        #expect(try self.lines(["limit": "0"]).isEmpty)
    }

    @Test(arguments: [
        ["provider": "x"], ["status": "x"], ["since": "x"], ["limit": "-1"], ["token": "a"], ["other": "1"],
    ])
    func malformedQueriesAreRefused(_ query: [String: String]) { #expect(LedgerFilter(query) == nil) }

    @Test func manyPagesAreReadInOrder() throws {
        for number in 0..<10_000 { try self.record("t\(number)", time: Int64(number)) }
        let lines = try self.lines([:])
        #expect(lines.count == 10_000)
        #expect(lines[9_999].hasPrefix(#"{"time":9999,"#))
        #expect(try self.lines(["limit": "5000"]).count == 5_000)
    }
}

@Suite struct PayloadReaderTests {
    private func send(_ body: String, _ key: StaticString = #""apus.send""#) -> String {
        let bytes = Array(body.utf8)
        return String(decoding: bytes[PayloadReader.text(of: key, in: bytes.span)], as: UTF8.self)
    }

    private func token(_ body: String) -> String {
        let bytes = Array(body.utf8)
        let recipient = SimulatedFCM.recipient(path: Array("/v1/projects/p/messages:send".utf8), body: bytes.span)
        return String(decoding: recipient?.token ?? [], as: UTF8.self)
    }

    @Test func theSendIsFoundWhereverItStands() {
        #expect(self.send(#"{"apus.send":"s1"}"#) == "s1")
        #expect(self.send(#"{"aps":{"alert":"x"},"apus.send":"0190-a","z":1}"#) == "0190-a")
        #expect(self.send(#"{"aps":{}, "apus.send" : "s 1" }"#) == "s 1")
        #expect(self.send(#"{"message":{"data":{"apus_send":"s2"}}}"#, #""apus_send""#) == "s2")
    }

    @Test func whatLooksLikeItIsNot() {
        #expect(self.send("") == "")
        #expect(self.send(#"{"apus.send":5}"#) == "")
        #expect(self.send(#"{"apus.send":"s1"#) == "")
        #expect(self.send(#"{"apus.send""#) == "")
        #expect(self.send(#"{"apus.sent":"s1"}"#) == "")
        #expect(self.send(#"{"apus.send":"a\"b"}"#) == "")
        #expect(self.send(#"{"x":"\"apus.send\":\"s1\""}"#) == "")
        #expect(self.send(#"{"apus_send":"s1"}"#) == "")
    }

    @Test func theTokenIsFound() {
        #expect(self.token(#"{"message":{"token":"t:1","data":{"x":"y"}}}"#) == "t:1")
        #expect(self.token(#"{"message":{"apns":{"live_activity_token":"l"},"token":"t"}}"#) == "t")
        #expect(self.token(#"{"message":{"fid":"f"}}"#) == "f")
        #expect(self.token(#"{"message":{"topic":"n"}}"#) == "")
    }
}
