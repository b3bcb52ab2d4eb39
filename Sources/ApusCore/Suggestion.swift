/// Returns the word that was probably meant: the one with the least edit distance, if that is at most a third of the word's length.
package func closest(to word: String, among candidates: some Sequence<String>) -> String? {
    let limit = max(1, word.count / 3)
    var best: (word: String, distance: Int)?
    for candidate in candidates.sorted() {
        let distance = editDistance(Array(word.utf8), Array(candidate.utf8))
        guard distance <= limit, distance < best?.distance ?? .max else { continue }
        best = (candidate, distance)
    }
    return best?.word
}

/// Counts the insertions, deletions, replacements and swaps of neighbours between two words.
private func editDistance(_ one: [UInt8], _ other: [UInt8]) -> Int {
    guard !one.isEmpty, !other.isEmpty else { return max(one.count, other.count) }
    var rows = [[Int]](repeating: [Int](repeating: 0, count: other.count + 1), count: one.count + 1)
    for row in 0...one.count { rows[row][0] = row }
    for column in 0...other.count { rows[0][column] = column }
    for row in 1...one.count {
        for column in 1...other.count {
            let isSame = one[row - 1] == other[column - 1]
            var distance = min(rows[row - 1][column] + 1, rows[row][column - 1] + 1)
            distance = min(distance, rows[row - 1][column - 1] + (isSame ? 0 : 1))
            if row > 1, column > 1, one[row - 1] == other[column - 2], one[row - 2] == other[column - 1] {
                distance = min(distance, rows[row - 2][column - 2] + 1)
            }
            rows[row][column] = distance
        }
    }
    return rows[one.count][other.count]
}
