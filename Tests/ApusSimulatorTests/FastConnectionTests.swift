import ApusCore
import ApusHTTP2
import ApusSimulator
import NIOCore
import Testing

/// Frames in, frames out, without a socket.
@Suite struct FastConnectionTests {
    private let state: SimulatorState
    private let shard: LedgerShard

    private static let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    private static let token = String(repeating: "0a", count: 32)

    init() {
        let tokens = AccessTokens(secret: [UInt8](repeating: 1, count: 32))
        let ledger = SimulatorLedger()
        self.state = SimulatorState(
            providers: [
                SimulatedAPNs(APNsValidator(keys: [], bundleIDs: [])),
                SimulatedFCM(
                    FCMValidator(accounts: [], tokens: tokens),
                    OAuthValidator(accounts: [], audiences: [], tokens: tokens),
                ),
            ],
            ledger: ledger,
        )
        self.shard = ledger.shard(0)
    }

    private func session(_ listener: FaultRoute = .apns, connectionWindow: Int = 65_535) -> FastConnection {
        FastConnection(
            state: self.state,
            shard: self.shard,
            listener: listener,
            streamsMax: 100,
            startsWithOneStream: true,
            connectionWindow: connectionWindow,
        )
    }

    private func frame(_ kind: UInt8, _ flags: UInt8, _ streamID: UInt8, _ payload: [UInt8]) -> [UInt8] {
        [0, UInt8(payload.count >> 8), UInt8(payload.count & 0xff), kind, flags, 0, 0, 0, streamID] + payload
    }

    /// POST and a literal path.
    private func block(_ path: String = "/3/device/\(FastConnectionTests.token)") -> [UInt8] {
        [0x83, 0x04, UInt8(path.utf8.count)] + Array(path.utf8)
    }

    private func body(_ send: String = "s1") -> [UInt8] { Array(#"{"aps":{},"apus.send":"\#(send)"}"#.utf8) }

    /// Returns the session's answer to those bytes.
    private func exchange(_ session: inout FastConnection, _ bytes: [UInt8], at nanoseconds: Int64 = 0) -> [UInt8] {
        var out = ByteBuffer()
        session.receive(bytes.span, nanoseconds: nanoseconds, &out)
        return Array(out.readableBytesView)
    }

    private func accepted(_ streamID: UInt8) -> [UInt8] { self.frame(1, 5, streamID, [0x88]) }
    private func settings(_ streams: UInt8) -> [UInt8] { self.frame(4, 0, 0, [0, 3, 0, 0, 0, streams]) }

    @Test func oneRequestIsAnsweredAndTheLimitRises() throws {
        var session = self.session()
        var start = ByteBuffer()
        session.start(&start)
        #expect(Array(start.readableBytesView) == self.settings(1))
        let opening = self.exchange(&session, Self.preface + self.frame(4, 0, 0, []))
        #expect(opening == self.frame(4, 1, 0, []))
        let first = self.frame(1, 4, 1, self.block()) + self.frame(0, 1, 1, self.body())
        #expect(self.exchange(&session, first, at: 7) == self.settings(100) + self.accepted(1))
        let second = self.frame(1, 4, 3, self.block()) + self.frame(0, 1, 3, self.body("s2"))
        #expect(self.exchange(&session, second) == self.accepted(3))
        let entries = self.state.ledger.snapshot.entries
        #expect(entries.map(\.send) == ["s1", "s2"])
        #expect(entries.map(\.token) == [Self.token, Self.token])
        #expect(entries[0].timeNanoseconds == 7)
    }

    @Test func bytesMayComeOneByOne() throws {
        var session = self.session()
        var said: [UInt8] = []
        let bytes =
            Self.preface + self.frame(4, 0, 0, []) + self.frame(1, 4, 1, self.block())
            + self.frame(0, 1, 1, self.body()) + self.frame(1, 4, 3, self.block()) + self.frame(0, 1, 3, self.body())
        for byte in bytes { said += self.exchange(&session, [byte]) }
        #expect(said == self.frame(4, 1, 0, []) + self.settings(100) + self.accepted(1) + self.accepted(3))
        #expect(self.state.ledger.snapshot.count == 2)
    }

    @Test func requestsMayOverlapAndBodiesComeInPieces() throws {
        var session = self.session()
        _ = self.exchange(&session, Self.preface)
        let body = self.body()
        var bytes: [UInt8] = []
        for stream in [UInt8(1), 3, 5] { bytes += self.frame(1, 4, stream, self.block()) }
        for stream in [UInt8(5), 1, 3] { bytes += self.frame(0, 0, stream, Array(body.prefix(15))) }
        for stream in [UInt8(3), 5, 1] { bytes += self.frame(0, 1, stream, Array(body.dropFirst(15))) }
        let said = self.exchange(&session, bytes)
        #expect(said == self.settings(100) + self.accepted(3) + self.accepted(5) + self.accepted(1))
        #expect(self.state.ledger.snapshot.entries.map(\.send) == ["s1", "s1", "s1"])
    }

    @Test func paddingPriorityAndContinuationAreUnderstood() throws {
        var session = self.session()
        _ = self.exchange(&session, Self.preface)
        let block = self.block()
        let headers = [2, 0, 0, 0, 0, 16] + Array(block.prefix(10)) + [0, 0]
        let bytes =
            self.frame(1, 0x28, 1, headers) + self.frame(9, 4, 1, Array(block.dropFirst(10)))
            + self.frame(0, 9, 1, [3] + self.body() + [0, 0, 0])
        #expect(self.exchange(&session, bytes) == self.settings(100) + self.accepted(1))
        let entry = try #require(self.state.ledger.snapshot.entries.first)
        #expect(entry.token == Self.token)
        #expect(entry.send == "s1")
    }

    @Test func headersAloneAreARequestAndTrailersEndOne() throws {
        var session = self.session()
        _ = self.exchange(&session, Self.preface)
        #expect(self.exchange(&session, self.frame(1, 5, 1, self.block())) == self.settings(100) + self.accepted(1))
        let trailed =
            self.frame(1, 4, 3, self.block()) + self.frame(0, 0, 3, self.body())
            + self.frame(1, 5, 3, [0x00, 1, 0x78, 1, 0x79])
        #expect(self.exchange(&session, trailed) == self.accepted(3))
        #expect(self.state.ledger.snapshot.entries.map(\.send) == [nil, "s1"])
    }

    @Test func whatAClientResetsIsForgotten() throws {
        var session = self.session()
        _ = self.exchange(&session, Self.preface)
        let bytes =
            self.frame(1, 4, 1, self.block()) + self.frame(3, 0, 1, [0, 0, 0, 8]) + self.frame(0, 1, 1, self.body())
        #expect(self.exchange(&session, bytes) == [])
        #expect(self.state.ledger.snapshot.count == 0)
    }

    @Test func `A connection at its maximum age gets GOAWAY, and later requests are not processed`() throws {
        var plan = FaultPlan()
        plan.apns.goAwayEveryMilliseconds = 1_000
        self.state.faults.adopt(plan)
        var session = self.session()
        _ = self.exchange(&session, Self.preface, at: 5)
        for (stream, time) in [(UInt8(1), Int64(999_999_999)), (3, 1_000_000_005), (5, 2_000_000_000)] {
            let bytes = self.frame(1, 4, stream, self.block()) + self.frame(0, 1, stream, self.body())
            _ = self.exchange(&session, bytes, at: time)
        }
        #expect(self.state.ledger.snapshot.count == 2)
        #expect(self.state.ledger.snapshot.summary.goAways == 1)
    }

    @Test func pingsAreEchoed() throws {
        var session = self.session()
        _ = self.exchange(&session, Self.preface)
        let ping: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8]
        #expect(self.exchange(&session, self.frame(6, 0, 0, ping)) == self.frame(6, 1, 0, ping))
        #expect(self.exchange(&session, self.frame(6, 1, 0, ping)) == [])
    }

    @Test func theWindowIsRefilledByHalves() throws {
        var session = self.session()
        _ = self.exchange(&session, Self.preface + self.frame(1, 4, 1, self.block()))
        let piece = [UInt8](repeating: 0x20, count: 16_383)
        #expect(self.exchange(&session, self.frame(0, 0, 1, piece)) == [])
        #expect(
            self.exchange(&session, self.frame(0, 0, 1, piece + [0x20])) == self.frame(8, 0, 0, [0, 0, 0x7f, 0xff])
        )
    }

    @Test func bodiesOfAnswersWaitForTheClientsWindow() throws {
        self.state.change { $0.behaviors.deadShare = DeadShare(1, seed: 0) }
        self.state.change { $0.behaviors.deadSince = UnixMilliseconds(5) }
        var session = self.session()
        _ = self.exchange(&session, Self.preface)
        let body = #"{"reason":"Unregistered","timestamp":5}"#
        // 1,680 bodies fit into the window of 65,535 bytes.
        let fitting = 65_535 / body.utf8.count
        var said: [UInt8] = []
        for number in 0..<fitting + 2 {
            let streamID = number * 2 + 1
            var headers = self.frame(1, 5, 0, self.block())
            headers[7] = UInt8(streamID >> 8)
            headers[8] = UInt8(streamID & 0xff)
            said += self.exchange(&session, headers)
        }
        func bodies(_ said: [UInt8]) -> Int { String(decoding: said, as: UTF8.self).ranges(of: "timestamp").count }
        #expect(bodies(said) == fitting)
        #expect(bodies(self.exchange(&session, self.frame(8, 0, 1, [0, 0, 1, 0]))) == 0)
        #expect(bodies(self.exchange(&session, self.frame(8, 0, 0, [0, 0, 1, 0]))) == 2)
    }

    @Test func delayedAnswersComeWhenTheyAreDue() throws {
        var plan = FaultPlan()
        plan.apns.delayMilliseconds = 10
        self.state.faults.adopt(plan)
        var session = self.session()
        _ = self.exchange(&session, Self.preface)
        let said = self.exchange(&session, self.frame(1, 5, 1, self.block()), at: 5_000_000)
        #expect(said == self.settings(100))
        #expect(session.takeNewDue() == [15])
        #expect(self.exchange(&session, self.frame(1, 5, 3, self.block()), at: 5_000_000) == [])
        #expect(session.takeNewDue() == [])
        var out = ByteBuffer()
        session.release(14, &out)
        #expect(out.readableBytes == 0)
        session.release(15, &out)
        #expect(Array(out.readableBytesView) == self.accepted(1) + self.accepted(3))
    }

    @Test func tokensInAnyFormAreKept() throws {
        var session = self.session()
        _ = self.exchange(&session, Self.preface)
        let paths = ["ABCD", Self.token.uppercased(), "xyz", String(Self.token.dropLast(2)) + "zz", ""]
        for (index, path) in paths.enumerated() {
            _ = self.exchange(&session, self.frame(1, 5, UInt8(index * 2 + 1), self.block("/3/device/\(path)")))
        }
        let tokens = self.state.ledger.snapshot.entries.map(\.token)
        #expect(tokens[0] == "abcd")
        #expect(tokens[1] == Self.token)
        #expect(tokens.count == 5)
    }

    /// Bytes that break the protocol, and the error code they earn (RFC 9113 §7).
    @Test(
        arguments: [
            ("474554202f20485454502f312e310d0a0d0a0000000000000000", 1),
            ("PRI" + "004001" + "00" + "00" + "00000001", 6),
            ("PRI" + "000001" + "01" + "04" + "00000002" + "82", 1),
            ("PRI" + "000001" + "01" + "04" + "00000001" + "80", 9),
            ("PRI" + "000001" + "01" + "00" + "00000001" + "82" + "000000" + "06" + "00" + "00000000", 1),
            ("PRI" + "000001" + "01" + "0c" + "00000001" + "05", 1),
            ("PRI" + "000000" + "00" + "01" + "00000000", 1),
            ("PRI" + "000001" + "06" + "00" + "00000000" + "00", 6),
            ("PRI" + "000001" + "04" + "00" + "00000000" + "00", 6),
            ("PRI" + "000000" + "05" + "00" + "00000001", 1),
        ] as [(String, UInt32)]
    )
    func brokenFramesEndTheConnection(_ text: String, _ code: UInt32) throws {
        var session = self.session()
        let preface = Hexadecimal.encode(Self.preface)
        let bytes = try #require(Hexadecimal.decode(text.replacing("PRI", with: preface)))
        let said = self.exchange(&session, bytes)
        let end = session.end
        #expect(end == .violation(HTTP2ErrorCode(rawValue: code)))
        #expect(said.suffix(17).prefix(4) == [0, 0, 8, 7])
        #expect(self.exchange(&session, Self.preface) == [])
    }

    @Test func aBodyBeyondTheLimitIsReset() throws {
        var session = self.session(connectionWindow: 1_048_576)
        _ = self.exchange(&session, Self.preface + self.frame(1, 4, 1, self.block()))
        let piece = [UInt8](repeating: 0x20, count: 16_384)
        for _ in 0..<SimulatorLimits.requestBodyBytesMax / piece.count {
            #expect(self.exchange(&session, self.frame(0, 0, 1, piece)) == [])
        }
        #expect(self.exchange(&session, self.frame(0, 0, 1, [0x20])) == self.frame(3, 0, 1, [0, 0, 0, 11]))
        #expect(self.state.ledger.snapshot.count == 0)
    }
}
