import ApusCore
import ApusLab
import ApusSimulator
import Testing

@Suite struct DeliveryAuditTests {
    private let population: DemoPopulation
    private let living: Int
    private let other: Int
    private let dead: Int

    init() throws {
        self.population = DemoPopulation(count: 200, seed: 3, dead: DeadShare(0.2, seed: 3))
        self.dead = try #require(self.population.dead.first)
        let living = self.population.devices.indices.filter { [population] in !population.devices[$0].isDead }
        self.living = living[0]
        self.other = living[1]
    }

    private func finding(_ requests: [(send: String?, device: Int, status: Int)]) -> DeliveryAudit.Finding {
        var audit = DeliveryAudit(self.population)
        audit.expect("a", to: [self.living, self.dead])
        for request in requests {
            let device = self.population.devices[request.device]
            audit.note(
                LedgerLine(
                    timeNanoseconds: 1,
                    provider: device.provider,
                    digest: device.digest,
                    send: request.send,
                    status: request.status,
                )
            )
        }
        return audit.finding
    }

    private func expected(
        lost: Int = 0,
        repeated: Int = 0,
        unexpected: Int = 0,
        refused: Int = 0
    ) -> DeliveryAudit.Finding {
        var finding = DeliveryAudit.Finding()
        finding.lost = lost
        finding.repeated = repeated
        finding.unexpected = unexpected
        finding.refused = refused
        return finding
    }

    @Test func `Living tokens accepted once and dead ones refused once add up`() {
        #expect(self.finding([("a", self.living, 200), ("a", self.dead, 410)]) == self.expected())
        #expect(self.finding([("a", self.living, 200), ("a", self.dead, 404)]) == self.expected())
    }

    @Test func `A recipient without a request is lost`() {
        #expect(self.finding([]) == self.expected(lost: 2))
        #expect(self.finding([("a", self.dead, 410)]) == self.expected(lost: 1))
    }

    @Test func `A living token that was only refused is lost`() {
        #expect(self.finding([("a", self.living, 503), ("a", self.dead, 410)]) == self.expected(lost: 1, refused: 1))
        #expect(
            self.finding([("a", self.living, 503), ("a", self.living, 200), ("a", self.dead, 410)])
                == self.expected(refused: 1)
        )
    }

    @Test func `A second settling answer of a pair is a repeat`() {
        #expect(
            self.finding([
                ("a", self.living, 200), ("a", self.living, 200), ("a", self.living, 200), ("a", self.dead, 410),
                ("a", self.dead, 410),
            ]) == self.expected(repeated: 3)
        )
    }

    @Test func `Requests for others, for other sends and for none are unexpected`() {
        #expect(
            self.finding([
                ("a", self.living, 200), ("a", self.dead, 410), ("a", self.other, 200), ("b", self.living, 200),
                (nil, self.living, 200),
            ]) == self.expected(unexpected: 3)
        )
    }

    @Test func `The accepted of a send are its living members, each counted once`() throws {
        var audit = DeliveryAudit(self.population)
        audit.expect("a", to: [self.living, self.other, self.dead])
        for (device, status) in [(self.living, 200), (self.living, 200), (self.other, 503), (self.dead, 410)] {
            let device = self.population.devices[device]
            audit.note(
                LedgerLine(
                    timeNanoseconds: 1,
                    provider: device.provider,
                    digest: device.digest,
                    send: "a",
                    status: status,
                )
            )
        }
        let counts = try #require(audit.counts(of: "a"))
        #expect(counts.audience == 3 && counts.accepted == 1)
        #expect(audit.counts(of: "b") == nil)
    }

    @Test func `A line of the ledger is read, and any other text is not`() throws {
        let token = String(repeating: "ab", count: 32)
        let text = #"{"time":17,"provider":"apns","token":"\#(token)","id":"x","send":"s-1","status":200}"#
        let line = try #require(LedgerLine(json: text.utf8))
        #expect(line.timeNanoseconds == 17)
        #expect(line.digest == TokenDigest(token, provider: .apns))
        #expect(line.send == "s-1")
        #expect(line.status == 200)
        #expect(LedgerLine(json: "{}".utf8) == nil)
        #expect(LedgerLine(json: "nonsense".utf8) == nil)
    }

    @Test func `Lines are found in pieces of any size`() {
        let text = Array("one\ntwo\n\nthree\n".utf8)
        for size in 1...text.count {
            var splitter = LineSplitter()
            var lines: [String] = []
            for start in stride(from: 0, to: text.count, by: size) {
                splitter.take(text[start..<min(start + size, text.count)]) {
                    lines.append(String(decoding: $0, as: UTF8.self))
                }
            }
            #expect(lines == ["one", "two", "three"])
        }
    }
}
