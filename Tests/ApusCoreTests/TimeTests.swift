import ApusCore
import Testing

@Suite struct UnixMillisecondsTests {
    @Test func secondsAreRoundedDown() {
        #expect(UnixMilliseconds(0).seconds == 0)
        #expect(UnixMilliseconds(999).seconds == 0)
        #expect(UnixMilliseconds(1_000).seconds == 1)
        #expect(UnixMilliseconds(-1).seconds == -1)
        #expect(UnixMilliseconds(-1_000).seconds == -1)
        #expect(UnixMilliseconds(-1_001).seconds == -2)
        #expect(UnixMilliseconds(.max).seconds == 9_223_372_036_854_775)
        #expect(UnixMilliseconds(.min).seconds == -9_223_372_036_854_776)
        #expect(UnixMilliseconds(seconds: 7).value == 7_000)
        #expect(UnixMilliseconds(seconds: -7).value == -7_000)
        #expect(UnixMilliseconds(seconds: .max).value == .max)
        #expect(UnixMilliseconds(seconds: .min).value == .min)
    }

    @Test func addingStopsAtTheEnds() {
        #expect(UnixMilliseconds(5).advanced(byMilliseconds: 7) == UnixMilliseconds(12))
        #expect(UnixMilliseconds(5).advanced(byMilliseconds: -7) == UnixMilliseconds(-2))
        #expect(UnixMilliseconds(.max).advanced(byMilliseconds: 1) == UnixMilliseconds(.max))
        #expect(UnixMilliseconds(1).advanced(byMilliseconds: .max) == UnixMilliseconds(.max))
        #expect(UnixMilliseconds(.min).advanced(byMilliseconds: -1) == UnixMilliseconds(.min))
        #expect(UnixMilliseconds(-2).advanced(byMilliseconds: .min) == UnixMilliseconds(.min))
    }

    @Test func theDistanceKeepsItsSign() {
        #expect(UnixMilliseconds(12).milliseconds(since: UnixMilliseconds(5)) == 7)
        #expect(UnixMilliseconds(5).milliseconds(since: UnixMilliseconds(12)) == -7)
        #expect(UnixMilliseconds(.max).milliseconds(since: UnixMilliseconds(-1)) == .max)
        #expect(UnixMilliseconds(.min).milliseconds(since: UnixMilliseconds(1)) == .min)
    }

    @Test func earlierIsLess() {
        #expect(UnixMilliseconds(-1) < UnixMilliseconds(0))
        #expect(UnixMilliseconds(12).description == "12")
    }

    @Test func aClockOfNanosecondsTellsMilliseconds() {
        struct Stopped: WallClock {
            func nanosecondsSince1970() -> Int64 { 1_700_000_000_123_999_999 }
        }
        #expect(Stopped().now() == UnixMilliseconds(1_700_000_000_123))
    }
}

@Suite struct SeededGeneratorTests {
    @Test func theSameSeedGivesTheSameNumbers() {
        var one = SeededGenerator(seed: 42)
        var other = SeededGenerator(seed: 42)
        for _ in 0..<100 { #expect(one.next() == other.next()) }
    }

    @Test func theNumbersAreThoseOfSplitMix64() {
        // The first outputs for seed 1234567, as published with the reference implementation and its ports.
        var generator = SeededGenerator(seed: 1_234_567)
        let numbers = (0..<5).map { _ in generator.next() }
        #expect(
            numbers == [
                6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423,
                4_593_380_528_125_082_431, 16_408_922_859_458_223_821,
            ]
        )
    }
}
