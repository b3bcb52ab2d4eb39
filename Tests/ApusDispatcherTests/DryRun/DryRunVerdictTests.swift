import ApusCore
import Testing

@testable import ApusDispatcher

@Suite struct DryRunVerdictTests {
    private static func word(_ answers: [(DeliveryOutcome, String)], hasMore: Bool) -> DryRunReport.Verdict.Word? {
        DryRunReport.Verdict.Word(answers.map { (outcome: $0.0, reason: $0.1) }, hasMore: hasMore)
    }

    private static let dead = (DeliveryOutcome.unregistered(.unregistered, asOf: nil), "UNREGISTERED")
    private static let bad = (DeliveryOutcome.suspect(.badToken), "INVALID_ARGUMENT")
    private static let foreign = (DeliveryOutcome.suspect(.wrongSender), "SENDER_ID_MISMATCH")

    @Test func `A dead token says nothing of the message, so another is tried, and the verdict may stay unknown`() {
        for answer in [Self.dead, Self.bad, Self.foreign] {
            #expect(Self.word([answer], hasMore: true) == nil)
            #expect(Self.word([Self.dead, answer, (.accepted, "")], hasMore: true) == .taken)
            #expect(Self.word([Self.dead, answer], hasMore: false) == .unknown(answer.1))
        }
    }

    @Test
    func `A verdict about the message stands, and tokens that all belong to another sender are the project's fault`() {
        #expect(Self.word([(.rejected(.payload), "INVALID_ARGUMENT")], hasMore: true) == .refused("INVALID_ARGUMENT"))
        #expect(Self.word([Self.dead, (.lost(.timeout), "no answer")], hasMore: true) == .unanswered("no answer"))
        #expect(Self.word([Self.foreign, Self.foreign], hasMore: false) == .refused("SENDER_ID_MISMATCH"))
    }
}
