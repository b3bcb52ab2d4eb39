import ApusCore
import ApusLab
import Testing

@Suite(.serialized) struct DrillTests {
    @Test(arguments: Drill.all.map(\.name))
    func `No drill loses a recipient or repeats more than allowed`(name: String) async throws {
        let drill = try #require(Drill.named(name))
        let report = try await drill.run(.short)
        #expect(report.complaints.isEmpty, "\(report.line)")
        #expect(report.lost == 0 && report.strangers == 0 && report.repeated <= report.bound)
        #expect(report.wronglyDeleted == 0)
        #expect(report.devices > 0 && report.planned >= report.devices && report.ledger[.open] == 0)
    }
}
