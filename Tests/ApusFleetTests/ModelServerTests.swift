import ApusFleet
import Testing

/// Tests what a modelled server does about replicas, failovers and errors, which the comparison with a real server does not show.
@Suite struct ModelServerTests {
    private static let lag: Int64 = 1_000

    /// A server with one client, which sends words and gets the text of replies.
    private struct Session {
        let server = ModelServer(RedisModel(seed: 1))
        var client: ModelServer.ClientID
        var now: Int64 = 1_700_000_000_000_000

        init() { self.client = self.server.connect() }

        mutating func send(_ words: String..., from other: ModelServer.ClientID? = nil) -> String {
            var bytes = Array("*\(words.count)\r\n".utf8)
            for word in words { bytes += "$\(word.utf8.count)\r\n\(word)\r\n".utf8 }
            return Self.text(self.server.receive(bytes, from: other ?? self.client, now: self.now))
        }

        /// Lets some µs pass.
        mutating func wait(_ microseconds: Int64) -> String {
            self.now += microseconds
            return Self.text(self.server.advance(to: self.now))
        }

        private static func text(_ outputs: [ModelServer.Output]) -> String {
            outputs.map { String(decoding: $0.bytes, as: UTF8.self) }.joined().replacing("\r\n", with: " ")
        }
    }

    @Test func `A wait for a replica ends when it has the client's last write, and not sooner`() {
        var session = Session()
        session.server.attach(lag: Self.lag, isReplica: true)
        #expect(session.send("SET", "a", "1") == "+OK ")
        #expect(session.send("WAIT", "1", "100") == "")
        #expect(session.server.nextDeadline == session.now + Self.lag)
        // The replica has it, and the server does not know yet.
        #expect(session.wait(Self.lag) == "" && session.server.copy?.writes == session.server.model.writes)
        #expect(session.wait(Self.lag) == ":1 ")
        // A client that has written nothing since need not wait.
        #expect(session.send("GET", "a") == "$1 1 " && session.send("WAIT", "1", "100") == ":1 ")
    }

    @Test func `A silent replica confirms nothing, and a file on disk never does`() {
        for isReplica in [true, false] {
            var session = Session()
            session.server.attach(lag: Self.lag, isReplica: isReplica)
            session.server.silenceCopy(isReplica)
            #expect(session.send("SET", "a", "1") == "+OK ")
            #expect(session.send("WAIT", "1", "100") == "")
            #expect(session.wait(99_000) == "" && session.wait(1_000) == ":0 ")
        }
    }

    @Test func `A failover keeps what the copy has, and nothing else`() {
        var session = Session()
        session.server.attach(lag: Self.lag, isReplica: true)
        #expect(session.send("SET", "kept", "1") == "+OK ")
        #expect(session.wait(2 * Self.lag) == "")
        #expect(session.send("SET", "lost", "1") == "+OK ")
        let reader = session.server.connect()
        #expect(session.send("XREAD", "BLOCK", "0", "STREAMS", "s", "$", from: reader) == "")
        let writes = session.server.failOver(runID: String(repeating: "f", count: 40))
        #expect(writes == session.server.model.writes - 1)
        #expect(session.server.waitingCount == 0 && session.server.copy == nil)
        // The old connections are gone.
        #expect(session.send("GET", "kept") == "")
        session.client = session.server.connect()
        #expect(session.send("GET", "kept") == "$1 1 " && session.send("GET", "lost") == "$-1 ")
        #expect(session.send("INFO", "server").contains("run_id:ffff"))
        #expect(session.send("INFO", "replication").contains("connected_slaves:0"))
        session.server.attach(lag: Self.lag, isReplica: true)
        #expect(session.send("INFO", "replication").contains("state=online"))
    }

    @Test func `A server that refuses answers with its word, and lets no wait end while it is busy`() {
        var session = Session()
        for (refusal, word) in [(ModelServer.Refusal.loading, "LOADING"), (.masterDown, "MASTERDOWN"), (.busy, "BUSY")]
        {
            session.server.refusal = refusal
            #expect(session.send("GET", "a").hasPrefix("-\(word) "))
            #expect(session.send("WAIT", "1", "1").hasPrefix("-\(word) "))
            #expect(session.send("INFO", "server").hasPrefix("-BUSY") == (refusal == .busy))
        }
        session.server.refusal = nil
        #expect(session.send("XREAD", "BLOCK", "1", "STREAMS", "s", "$") == "")
        session.server.refusal = .busy
        #expect(session.wait(10_000) == "" && session.server.nextDeadline == nil)
        session.server.refusal = nil
        #expect(session.wait(0) == "*-1 ")
    }

    @Test func `A server that becomes a replica tells who waits, and takes no writes`() {
        var session = Session()
        #expect(session.send("XREAD", "BLOCK", "0", "STREAMS", "s", "$") == "")
        session.server.demote(true)
        #expect(session.send("SET", "a", "1", from: session.server.connect()).contains("-READONLY"))
        #expect(session.server.waitingCount == 0)
        session.server.demote(false)
        #expect(session.send("SET", "a", "1") == "+OK ")
    }
}
