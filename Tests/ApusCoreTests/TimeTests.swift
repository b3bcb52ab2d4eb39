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

    @Test(
        arguments: [
            (0, "1970-01-01T00:00:00Z"), (951_782_400, "2000-02-29T00:00:00Z"), (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"), (253_402_300_799, "9999-12-31T23:59:59Z"),
        ] as [(Int64, String)]
    )
    func `A time is written and read by RFC 3339`(seconds: Int64, text: String) {
        #expect(UnixMilliseconds(seconds: seconds).timestamp == text)
        #expect(UnixMilliseconds(timestamp: text) == UnixMilliseconds(seconds: seconds))
    }

    @Test func `A time may have a fraction, an offset, and a space`() {
        let noon = UnixMilliseconds(1_764_072_000_000)
        #expect(UnixMilliseconds(timestamp: "2025-11-25 12:00:00Z") == noon)
        #expect(UnixMilliseconds(timestamp: "2025-11-25T13:30:00+01:30") == noon)
        #expect(UnixMilliseconds(timestamp: "2025-11-25T07:00:00.25-05:00") == noon.advanced(byMilliseconds: 250))
        for text in [
            "", "2025-11-25", "2025-11-25T12:00:00", "2025-02-29T12:00:00Z", "2025-13-01T12:00:00Z",
            "2025-11-25T24:00:00Z",
            "2025-11-25T12:00:00Zx", "2025-11-25T12:00:00.Z", "1969-12-31T23:59:59Z", "2025-11-25T12:00:00+1:30",
        ] {
            #expect(UnixMilliseconds(timestamp: text) == nil, "\(text)")
        }
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
