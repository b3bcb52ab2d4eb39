import ApusCore
import ApusMessages
import ApusStreams
import ApusTerminal
import Testing

@Suite struct ProgressTests {
    private func status(_ phase: SendStatus.Phase, planned: UInt64, _ counts: [Outcome: UInt64]) -> SendStatus {
        var status = SendStatus(send: "s")
        status.phase = phase
        status.planned = planned
        status.counts = counts.map { OutcomeCount(provider: .apns, outcome: $0, reason: .none, count: $1) }
        return status
    }

    @Test func `A send under way is one line`() {
        let status = self.status(.running, planned: 100_000, [.accepted: 60_911, .unregistered: 240, .failed: 53])
        #expect(
            ProgressLine.text(status, rate: 12_400)
                == "[##############----------] 61,204/100,000  accepted 60,911  unregistered 240  failed 53  12.4k/s  ETA 4s"
        )
    }

    @Test func `Other outcomes are shown when there are any`() {
        let status = self.status(.done, planned: 3, [.accepted: 1, .rejected: 1, .skipped: 1])
        #expect(
            ProgressLine.text(status, rate: nil)
                == "[########################] 3/3  accepted 1  unregistered 0  failed 0  rejected 1  skipped 1"
        )
    }

    @Test func `A send that is being planned has no estimated end`() {
        let line = ProgressLine.text(self.status(.planning, planned: 1_000, [.accepted: 500]), rate: 100)
        #expect(line.hasSuffix("100/s  still finding recipients"))
        #expect(!line.contains("ETA"))
    }

    @Test func `A send that something keeps from going on has no estimated end`() {
        for phase in [SendStatus.Phase.planning, .running] {
            let status = self.status(phase, planned: 1_000, [.accepted: 500])
            let line = ProgressLine.text(status, rate: 100, isObstructed: true)
            #expect(line.hasSuffix("100/s  waiting"), "\(line)")
        }
    }

    @Test func `The outcomes of a send are shown by reason, and those of nobody are left out`() {
        let counts = [
            OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 1_204),
            OutcomeCount(provider: .apns, outcome: .failed, reason: .noRoute, count: 1),
            OutcomeCount(provider: .fcm, outcome: .failed, reason: .retriesExhausted, count: 30),
            OutcomeCount(provider: .fcm, outcome: .rejected, reason: .payload, count: 0),
        ]
        #expect(
            OutcomeTable.lines(counts).map { $0.split(separator: " ").joined(separator: " ") } == [
                "OUTCOME REASON PROVIDER RECIPIENTS", "accepted apns 1,204", "failed retries_exhausted fcm 30",
                "failed no_route apns 1",
            ]
        )
        #expect(OutcomeTable.lines([]) == [])
    }

    @Test func `A send that is not accepted yet, and a refused one, are shown as such`() {
        #expect(ProgressLine.text(SendStatus(send: "s"), rate: nil) == "waiting for a dispatcher")
        let problem = Problem(code: "no_recipients", field: "target.users", detail: "names no recipients")
        let refused = self.status(.refused(problem), planned: 0, [:])
        #expect(ProgressLine.text(refused, rate: nil) == "refused: no_recipients: target.users: names no recipients")
    }

    @Test func `An incomplete send is shown as such, and is no success`() {
        var status = self.status(.done, planned: 3, [.accepted: 3])
        #expect(status.exitCode == 0)
        status.problem = Problem(code: "incomplete", field: "target", detail: "some were never looked for")
        #expect(
            ProgressLine.text(status, rate: nil).hasSuffix("failed 0  incomplete: target: some were never looked for")
        )
        #expect(status.exitCode == 2)
    }

    @Test func `A send that reached nobody is no success`() {
        let cases: [([Outcome: UInt64], Int32)] = [
            ([:], 2), ([.skipped: 1], 2), ([.unregistered: 20], 2), ([.accepted: 1, .unregistered: 20], 0),
            ([.accepted: 1, .expired: 1], 2),
        ]
        for (counts, code) in cases {
            let planned = counts.values.reduce(0, +)
            #expect(self.status(.done, planned: planned, counts).exitCode == code, "\(counts)")
        }
    }

    @Test func `A send without recipients is complete at its end`() {
        #expect(
            ProgressLine.text(self.status(.done, planned: 0, [:]), rate: nil).hasPrefix("[########################]")
        )
        #expect(
            ProgressLine.text(self.status(.running, planned: 0, [:]), rate: nil).hasPrefix("[------------------------]")
        )
    }

    @Test func `The rate is that of the last five seconds`() {
        var window = RateWindow()
        #expect(window.rate == nil)
        window.note(0, at: 0)
        #expect(window.rate == nil)
        for second in 1...10 { window.note(UInt64(second) * 100, at: Double(second)) }
        #expect(window.rate == 100)
        for second in 11...16 { window.note(1_000, at: Double(second)) }
        #expect(window.rate == 0)
        // The same moment again is not a new one.
        window.note(5_000, at: 16)
        #expect(window.rate == 0)
    }

    @Test func `The exit code tells the result`() {
        #expect(self.status(.done, planned: 2, [.accepted: 1, .unregistered: 1]).exitCode == 0)
        #expect(self.status(.done, planned: 2, [.accepted: 1, .expired: 1]).exitCode == 2)
        for phase in [SendStatus.Phase.cancelled, .done] {
            let cancelled = self.status(phase, planned: 2, [.accepted: 1, .cancelled: 1])
            #expect(cancelled.exitCode == 2 && cancelled.isOver == (phase == .done))
        }
        #expect(self.status(.refused(Problem(code: "x", detail: "y")), planned: 0, [:]).exitCode == 1)
        #expect(self.status(.running, planned: 2, [:]).exitCode == 1)
    }

    @Test func `The outcomes of a status add up to what is planned`() {
        let status = self.status(.running, planned: 10, [.accepted: 3, .failed: 1])
        #expect(status.total(.open) == 6)
        #expect(Outcome.allCases.reduce(0) { $0 + status.total($1) } == 10)
        #expect(status.json["open"]?.int64 == 6)
        #expect(status.json["state"]?.string == "running")
    }
}

@Suite struct ProgressDisplayTests {
    private final class Screen {
        var text = ""
    }

    private func shown(interactive: Bool, _ times: [Double]) -> String {
        let screen = Screen()
        var display = ProgressDisplay(label: "x", isInteractive: interactive) { screen.text += $0 }
        for time in times { display.show("\(time)", at: time) }
        display.finish("end")
        return screen.text
    }

    @Test func `A person sees one line redrawn, at most ten times a second`() {
        let clear = "\r\u{1b}[K"
        #expect(
            self.shown(interactive: true, [0, 0.05, 0.125, 0.15, 0.25])
                == "\(clear)x  0.0\(clear)x  0.125\(clear)x  0.25\(clear)x  end\n"
        )
    }

    @Test func `An announcement stays above the line`() {
        let screen = Screen()
        var display = ProgressDisplay(isInteractive: true) { screen.text += $0 }
        display.show("1", at: 0)
        display.announce("wait")
        display.finish("end")
        let clear = "\r\u{1b}[K"
        #expect(screen.text == "\(clear)1\(clear)wait\n\(clear)end\n")
    }

    @Test func `A line stays one, whatever a publisher has written into it`() {
        let screen = Screen()
        var display = ProgressDisplay(isInteractive: false) { screen.text += $0 }
        display.finish("refused: a\nb\u{1b}[2J")
        #expect(screen.text == #"refused: a\nb\u001b[2J"# + "\n")
    }

    @Test func `A log gets a plain line every five seconds and at the end`() {
        #expect(self.shown(interactive: false, [0, 1, 4, 5, 6, 10]) == "x  5.0\nx  10.0\nx  end\n")
        #expect(self.shown(interactive: false, [0, 1]) == "x  end\n")
    }
}
