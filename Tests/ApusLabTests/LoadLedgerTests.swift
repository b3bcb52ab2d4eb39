import ApusCore
import ApusLab
import ApusSimulator
import Testing

@Suite struct LoadLedgerTests {
    private static let devices = (0..<100).map { TokenDigest("token-\($0)", provider: .fcm) }

    private func ledger(_ sends: LoadLedger.Send...) -> LoadLedger { LoadLedger(sends, devices: Self.devices) }

    @Test func `A load reads like a trace: each acceptance counts once, from when its send was due`() {
        var ledger = self.ledger(
            .init(due: 0, audience: 0..<100, isMeasured: false),
            .init(due: 1_000_000, audience: 0..<100, isMeasured: true),
            .init(due: 2_000_000, audience: 7..<8, isMeasured: true),
        )
        #expect(ledger.planned == 201 && ledger.measured == 101 && ledger.lost == 201 && ledger.span == nil)
        for device in 0..<100 { ledger.note(0, Self.devices[device], at: 500_000) }
        #expect(ledger.accepted == 100 && ledger.latency.count == 0)
        for device in 0..<99 { ledger.note(1, Self.devices[device], at: 3_000_000) }
        ledger.note(2, Self.devices[7], at: 7_000_000)
        #expect(ledger.accepted == 200 && ledger.lost == 1 && ledger.repeated == 0 && ledger.strangers == 0)
        #expect(ledger.latency.count == 100 && ledger.latency.milliseconds(percentile: 50) == 2)
        #expect(ledger.latency.milliseconds(percentile: 100) == 5)
        #expect(ledger.span == 3_000_000...7_000_000)
    }

    @Test func `A second acceptance is a repeat, and one without a request is unexpected`() {
        var ledger = self.ledger(.init(due: 0, audience: 7..<8, isMeasured: true))
        for _ in 0..<3 { ledger.note(0, Self.devices[7], at: 1) }
        ledger.note(0, Self.devices[8], at: 1)
        ledger.note(0, TokenDigest("another", provider: .fcm), at: 1)
        #expect(ledger.accepted == 1 && ledger.repeated == 2 && ledger.strangers == 2 && ledger.lost == 0)
        #expect(ledger.latency.count == 1)
    }

    @Test func `The simulator's ledger is read in one pass, for the selected sends`() {
        let simulator = SimulatorLedger(shards: 2)
        func accept(_ token: String, _ send: String, _ shard: Int, status: Int = 200) {
            simulator.shard(shard).record(
                .fcm,
                token: Array(token.utf8).span,
                isRaw: false,
                id: .none,
                send: Array(send.utf8).span,
                status: status,
                fault: nil,
                time: 5,
            )
        }
        accept("token-1", "load-0", 0)
        accept("token-2", "load-1", 1)
        accept("token-2", "load-1", 1, status: 503)
        accept("token-3", "other", 1)
        accept("token-4", "", 0)
        var found: [Int: TokenDigest] = [:]
        func number(_ send: String) -> Int? { Int(send.dropFirst(5)).flatMap { $0 < 2 ? $0 : nil } }
        simulator.snapshot.visitAccepted(number) { number, token, time in
            found[number] = token
            #expect(time == 5)
        }
        #expect(found == [0: Self.devices[1], 1: Self.devices[2]])
    }

    @Test func `The time for a number of acceptances counts from the first, in whole intervals`() {
        let simulator = SimulatorLedger(shards: 1)
        let nothing: [UInt8] = []
        for time in [1_000_000_000, 1_001_000_000, 1_015_000_000, 1_095_000_000] as [Int64] {
            simulator.shard(0).record(
                .fcm,
                token: nothing.span,
                isRaw: false,
                id: .none,
                send: nothing.span,
                status: 200,
                fault: nil,
                time: time,
            )
        }
        let timeline = simulator.snapshot.timeline
        #expect(timeline.seconds(untilAccepted: 2) == 0.01 && timeline.seconds(untilAccepted: 3) == 0.02)
        #expect(timeline.seconds(untilAccepted: 4) == 0.1 && timeline.seconds(untilAccepted: 5) == nil)
    }
}
