import ApusTerminal
import ArgumentParser
import Testing

@Suite struct NumberTextTests {
    @Test func `One thing is named by another word than many`() {
        #expect(NumberText.counted(1, "entry", "entries") == "1 entry")
        #expect(NumberText.counted(0, "entry", "entries") == "0 entries")
        #expect(NumberText.counted(2_000, "entry", "entries") == "2,000 entries")
    }

    @Test(arguments: [
        (0, "0"), (999, "999"), (1_000, "1,000"), (61_204, "61,204"), (1_234_567, "1,234,567"), (-1_000, "-1,000"),
    ])
    func `Thousands are separated`(_ value: Int, _ text: String) {
        #expect(NumberText.grouped(value) == text)
    }

    @Test(arguments: [
        (2.345, 2, "2.35"), (2.3, 0, "2"), (0.05, 1, "0.1"), (1.999, 2, "2.00"), (-1.25, 1, "-1.3"), (-0.001, 1, "0.0"),
        (.nan, 1, "-"), (.infinity, 1, "-"), (1e16, 1, "-"),
    ])
    func `Decimals are rounded, and a missing number is a dash`(_ value: Double, _ decimals: Int, _ text: String) {
        #expect(NumberText.decimal(value, decimals) == text)
    }

    @Test(arguments: [
        (0.0, "0"), (0.44, "0.4"), (9.94, "9.9"), (9.96, "10"), (999.4, "999"), (999.6, "1.0k"), (12_400, "12.4k"),
        (999_949, "999.9k"), (999_951, "1.0M"), (2_550_000, "2.6M"), (-1, "-"),
    ])
    func `Rates are short`(_ value: Double, _ text: String) {
        #expect(NumberText.rate(value) == text)
    }

    @Test(arguments: [
        (0.0, "0s"), (2.1, "3s"), (59.5, "1m00s"), (125, "2m05s"), (3_599, "59m59s"), (4_800, "1h20m"), (-1, "-"),
        (.infinity, "-"),
    ])
    func `Durations are short and rounded up`(_ seconds: Double, _ text: String) {
        #expect(NumberText.duration(seconds: seconds) == text)
    }

    @Test func `A table is as wide as its widest cells`() {
        var table = TextTable(["NAME", ">COUNT"])
        table.add(["a", "1"])
        table.add(["longer", "1,000,000"])
        #expect(table.lines == ["NAME        COUNT", "a               1", "longer  1,000,000"])
    }

    @Test(arguments: ["-1", "1x", "9223372036854775808", "9223372036854775807", "106751991168d", ""])
    func `A duration that is none, or is too long, is refused with the form of durations`(text: String) {
        #expect(throws: ValidationError.self) { try DurationText.milliseconds(text, of: "--ttl") }
    }

    @Test func `A duration is read with its unit, and in seconds without one`() throws {
        #expect(
            try ["90", "5m", "2h", "1d"].map { try DurationText.milliseconds($0, of: "--ttl") }
                == [90_000, 300_000, 7_200_000, 86_400_000]
        )
    }
}
