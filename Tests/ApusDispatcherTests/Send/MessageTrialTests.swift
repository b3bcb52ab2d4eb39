import Testing

@testable import ApusDispatcher

@Suite struct MessageTrialTests {
    private let field = "message.android.ttl"

    /// Rejects messages as fast as the trial allows; the number of requests.
    private func reject(_ trial: inout MessageTrial, variant: Int = 0, countMax: Int) -> Int {
        var count = 0
        while trial.room > 0, count < countMax {
            let sent = min(trial.room, countMax - count)
            trial.sent(sent)
            count += sent
            for _ in 0..<sent {
                trial.answered()
                _ = trial.record(self.field, variant: variant)
            }
        }
        return count
    }

    @Test func `D51 A message that nobody takes goes to twenty recipients, until the ledger has decided`() {
        var trial = MessageTrial(variants: 1)
        #expect(self.reject(&trial, countMax: 10_000) == 20 && trial.room == 0)
        trial.recordRefused()
        #expect(trial.room == 0)
        trial.recordAccepted()
        #expect(trial.room == 0)
    }

    @Test func `D51 No more than twenty requests are on the wire before the first is accepted`() {
        var trial = MessageTrial(variants: 1)
        trial.sent(20)
        #expect(trial.room == 0)
        trial.answered()
        #expect(trial.room == 1)
        #expect(!trial.record("", variant: 0) && trial.room == 1)
        #expect(!trial.record(self.field, variant: 0) && trial.room == 0)
        trial.recordAccepted()
        #expect(trial.room == .max)
    }

    @Test func `D51 A send that goes on although this loop saw only rejections was accepted elsewhere`() {
        var trial = MessageTrial(variants: 1)
        _ = self.reject(&trial, countMax: 100)
        trial.recordAccepted()
        #expect(trial.room == .max)
    }

    @Test func `D51 While a variant was not tried, the others go on twenty at a time`() {
        var trial = MessageTrial(variants: 2)
        #expect(self.reject(&trial, countMax: 200) == 200 && trial.room == 20)
        trial.sent(1)
        trial.answered()
        #expect(trial.record(self.field, variant: 1) && trial.room == 0)
    }

    @Test func `A trial whose verdict never reached the ledger starts again`() {
        var trial = MessageTrial(variants: 1)
        _ = self.reject(&trial, countMax: 100)
        trial.reset()
        #expect(self.reject(&trial, countMax: 100) == 20)
        trial.recordRefused()
        trial.reset()
        #expect(trial.room == 0)
    }
}
