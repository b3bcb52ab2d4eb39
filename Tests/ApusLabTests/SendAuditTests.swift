import ApusCore
import ApusLab
import ApusSimulator
import Testing

@Suite struct SendAuditTests {
    private let ledger = SimulatorLedger(shards: 2)

    private func accept(
        _ token: String,
        send: String = "s",
        status: Int = 200,
        shard: Int = 0,
        fault: Fault? = nil,
        time: Int64 = 1
    ) {
        self.ledger.shard(shard).record(
            .fcm,
            token: Array(token.utf8).span,
            isRaw: false,
            id: .none,
            send: Array(send.utf8).span,
            status: status,
            fault: fault,
            time: time,
        )
    }

    private func audit(_ tokens: String...) -> SendAudit {
        SendAudit(of: "s", audience: tokens.map { TokenDigest($0, provider: .fcm) }, in: self.ledger.snapshot)
    }

    @Test func `Every recipient once and no other is exact`() {
        self.accept("a")
        self.accept("b", shard: 1)
        // Another send, and a try that was refused.
        self.accept("c", send: "t")
        self.accept("a", status: 503)
        #expect(self.audit("a", "b").isExact)
        #expect(self.audit("a", "b").accepted == 2)
    }

    @Test func `Lost, repeated and unexpected requests are distinguished`() {
        self.accept("a", time: 1)
        self.accept("a", shard: 1, time: 7)
        self.accept("a", time: 9)
        self.accept("b", fault: .silence)
        self.accept("x")
        let audit = self.audit("a", "b", "c", "d")
        #expect(audit.lost == 2 && audit.repeated == 2 && audit.strangers == 1 && audit.unanswered == 1)
        #expect(audit.repeatTimes.count == 2 && audit.repeatTimes.contains(7))
        #expect(!audit.isExact)
    }

    @Test func `Without a request every recipient is lost`() {
        #expect(self.audit("a", "b").lost == 2)
        #expect(self.audit().isExact)
    }
}
