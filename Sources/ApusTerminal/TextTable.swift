internal import ApusCore
package import ApusMessages

/// Formats columns of text: texts are aligned to the left, numbers to the right.
package struct TextTable {
    private let titles: [String]
    private let isNumber: [Bool]
    private var rows: [[String]] = []

    /// Creates a table with the given titles; a title that begins with ">" heads a column of numbers.
    package init(_ titles: [String]) {
        self.titles = titles.map { $0.hasPrefix(">") ? String($0.dropFirst()) : $0 }
        self.isNumber = titles.map { $0.hasPrefix(">") }
    }

    /// Adds a row, which has as many cells as there are titles; what a terminal would obey in them is escaped.
    package mutating func add(_ cells: [String]) {
        precondition(cells.count == self.titles.count, "a cell for each column")
        self.rows.append(cells.map(\.visible))
    }

    /// True when the table has no rows.
    package var isEmpty: Bool { self.rows.isEmpty }

    /// The lines of the table, the titles first.
    package var lines: [String] {
        let all = [self.titles] + self.rows
        let widths = self.titles.indices.map { column in all.map { $0[column].count }.max() ?? 0 }
        return all.map { cells in
            let padded = cells.indices.map { column -> String in
                let gap = String(repeating: " ", count: widths[column] - cells[column].count)
                return self.isNumber[column] ? gap + cells[column] : cells[column] + gap
            }
            let line = padded.joined(separator: "  ")
            let end = line.lastIndex { $0 != " " }
            return end.map { String(line[...$0]) } ?? ""
        }
    }
}

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
