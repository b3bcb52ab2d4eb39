import ApusService
import Testing

@Suite struct LogRepeatsTests {
    private static let second = LogRepeats.spanNanoseconds
    private let here = LogRepeats.Place(file: "Gateway.swift", line: 1)
    private let there = LogRepeats.Place(file: "Gateway.swift", line: 2)

    @Test func `A place writes a limited number of lines a second, and the next one says how many were withheld`() {
        var repeats = LogRepeats()
        for _ in 0..<LogRepeats.linesMax { #expect(repeats.admit(self.here, at: 5) == 0) }
        for _ in 0..<7 { #expect(repeats.admit(self.here, at: 5 + Self.second - 1) == nil) }
        #expect(repeats.admit(self.there, at: 6) == 0)
        #expect(repeats.admit(self.here, at: 5 + Self.second) == 7)
        #expect(repeats.admit(self.here, at: 5 + Self.second) == 0)
    }

    @Test func `A clock that is set back silences no place`() {
        var repeats = LogRepeats()
        for _ in 0...LogRepeats.linesMax { _ = repeats.admit(self.here, at: 100 * Self.second) }
        #expect(repeats.admit(self.here, at: 1) == 1)
    }

    @Test func `The number of remembered places is limited`() {
        var repeats = LogRepeats()
        for line in 0..<UInt(LogRepeats.placesMax) {
            #expect(repeats.admit(LogRepeats.Place(file: "a", line: line), at: 0) == 0)
        }
        #expect(repeats.placesCount == LogRepeats.placesMax)
        #expect(repeats.admit(self.here, at: 0) == 0)
        #expect(repeats.placesCount == 1)
    }
}
