internal import ApusCore
package import ApusMessages

/// Shows the recipients of a send by outcome, reason and provider.
package enum OutcomeTable {
    /// Returns the table as lines, the largest counts of each outcome first; none when there are no counts.
    package static func lines(_ counts: [OutcomeCount]) -> [String] {
        var table = TextTable(["OUTCOME", "REASON", "PROVIDER", ">RECIPIENTS"])
        for outcome in Outcome.allCases {
            for count in counts.filter({ $0.outcome == outcome && $0.count > 0 }).sorted(by: { $0.count > $1.count }) {
                let reason = count.reason == .none ? "" : count.reason.name
                table.add([outcome.name, reason, count.provider.name, NumberText.grouped(count.count)])
            }
        }
        return table.isEmpty ? [] : table.lines
    }
}
