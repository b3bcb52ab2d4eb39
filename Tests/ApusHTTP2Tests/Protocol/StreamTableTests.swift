import ApusCore
import Testing

@testable import ApusHTTP2

@Suite struct StreamTableTests {
    @Test("streams that come and go in any order are found as in a dictionary, and those that are over are not")
    func againstADictionary() {
        var generator = SeededGenerator(seed: 7)
        // Few places, so that ids a whole table apart are open at once and push each other on.
        for capacity in [1, 3, 8, 20] {
            var table = StreamTable(capacity: capacity)
            var model: [UInt32: Int32] = [:]
            var next: UInt32 = 1
            for _ in 0..<4_000 {
                if model.count < capacity, model.isEmpty || Bool.random(using: &generator) {
                    let slot = Int32.random(in: 0..<1_000, using: &generator)
                    table.insert(next, slot: slot)
                    model[next] = slot
                    // Most ids follow one another; now and then a stream outlives many.
                    next += 2 * UInt32.random(in: 1...3, using: &generator)
                } else if let gone = model.keys.sorted().randomElement(using: &generator) {
                    table.remove(gone)
                    model[gone] = nil
                    table.remove(gone)
                    #expect(table.find(gone) == -1)
                }
                for (streamID, slot) in model { #expect(table.find(streamID) == slot) }
            }
        }
    }
}
