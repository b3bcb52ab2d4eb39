/// A copy of one owner's cells, passed from the owner to the scrape.
public struct MetricSnapshot: Sendable, Hashable {
    var cells: [Int64]
    var sums: [Double]
    var exemplars: [MetricExemplar]

    /// The value of a gauge's cell that was never set.
    static let absent = Int64.min

    mutating func add(_ other: MetricSnapshot) {
        precondition(self.cells.count == other.cells.count && self.sums.count == other.sums.count)
        precondition(self.exemplars.count == other.exemplars.count)
        for index in self.cells.indices {
            let value = other.cells[index]
            guard value != 0, value != Self.absent else { continue }
            self.cells[index] = self.cells[index] == Self.absent ? value : self.cells[index] &+ value
        }
        for index in self.sums.indices { self.sums[index] += other.sums[index] }
        for (index, exemplar) in other.exemplars.enumerated()
        where exemplar.milliseconds > self.exemplars[index].milliseconds {
            self.exemplars[index] = exemplar
        }
    }
}
