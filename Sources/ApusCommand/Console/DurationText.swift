/// Durations as operators type them.
package enum DurationText {
    /// What they look like, for messages.
    package static let form = "a number of seconds, or has a unit: 30s, 5m, 2h, 1d"

    /// The milliseconds of a duration; nil when the text is none, or too long.
    package static func milliseconds(_ text: String) -> Int64? {
        let units: [Character: Int64] = ["s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000]
        let scale = text.last.flatMap { units[$0] }
        let digits = scale == nil ? text[...] : text.dropLast()
        guard let count = Int64(digits), count >= 0 else { return nil }
        let (value, overflow) = count.multipliedReportingOverflow(by: scale ?? 1_000)
        return overflow ? nil : value
    }
}
