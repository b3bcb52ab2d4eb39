package import ApusCore
internal import ArgumentParser

/// Formats numbers for people, the same in every locale.
package enum NumberText {
    /// Formats 61204 as "61,204".
    package static func grouped(_ value: some BinaryInteger) -> String {
        let digits = String(value.magnitude)
        var text = ""
        for (index, digit) in digits.enumerated() {
            if index > 0, (digits.count - index).isMultiple(of: 3) { text.append(",") }
            text.append(digit)
        }
        return value < 0 ? "-" + text : text
    }

    /// Formats a number of things: "1 entry", "2,000 entries".
    package static func counted(_ count: some BinaryInteger, _ one: String, _ many: String) -> String {
        "\(Self.grouped(count)) \(count == 1 ? one : many)"
    }

    /// Formats with the given decimals, rounded half away from zero: 2.345 with two as "2.35".
    package static func decimal(_ value: Double, _ decimals: Int) -> String {
        precondition((0...9).contains(decimals))
        guard value.isFinite, value.magnitude < 1e15 else { return "-" }
        var scale = 1.0
        for _ in 0..<decimals { scale *= 10 }
        let scaled = (value.magnitude * scale).rounded()
        let whole = Int64(scaled / scale)
        let fraction = String(Int64(scaled - Double(whole) * scale))
        let sign = value < 0 && scaled > 0 ? "-" : ""
        guard decimals > 0 else { return sign + String(whole) }
        return "\(sign)\(whole)." + String(repeating: "0", count: decimals - fraction.count) + fraction
    }

    /// Returns the same number for JSON; null when it is not finite.
    package static func json(_ value: Double, _ decimals: Int) -> JSONValue {
        Double(Self.decimal(value, decimals)).flatMap(JSONNumber.init).map { .number($0) } ?? .null
    }

    /// Formats a rate per second: "12.4k", "830", "0.5".
    package static func rate(_ value: Double) -> String {
        guard value.isFinite, value >= 0 else { return "-" }
        if value >= 999_950 { return Self.decimal(value / 1_000_000, 1) + "M" }
        if value >= 999.5 { return Self.decimal(value / 1_000, 1) + "k" }
        return value >= 9.95 || value == 0 ? Self.decimal(value, 0) : Self.decimal(value, 1)
    }

    /// Formats a duration: "3s", "2m05s", "1h20m".
    package static func duration(seconds: Double) -> String {
        guard seconds.isFinite, seconds >= 0, seconds < 1e9 else { return "-" }
        let whole = Int64(seconds.rounded(.up))
        func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
        if whole < 60 { return "\(whole)s" }
        if whole < 3_600 { return "\(whole / 60)m\(two(whole % 60))s" }
        return "\(whole / 3_600)h\(two(whole / 60 % 60))m"
    }

    /// Formats an age in milliseconds: "340 ms", "12 s", "2m05s".
    package static func age(milliseconds: Int64) -> String {
        if milliseconds < 1_000 { return "\(max(0, milliseconds)) ms" }
        return Self.duration(seconds: Double(milliseconds / 1_000))
    }
}

/// Parses durations that operators type.
package enum DurationText {
    /// The accepted form, for messages.
    package static let form = "a number of seconds, or has a unit: 30s, 5m, 2h, 1d"

    /// Returns the milliseconds of a duration; nil when the text is not one, or too long.
    package static func milliseconds(_ text: String) -> Int64? {
        let units: [Character: Int64] = ["s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000]
        let scale = text.last.flatMap { units[$0] }
        let digits = scale == nil ? text[...] : text.dropLast()
        guard let count = Int64(digits), count >= 0 else { return nil }
        let (value, overflow) = count.multipliedReportingOverflow(by: scale ?? 1_000)
        return overflow ? nil : value
    }

    /// Returns the milliseconds of an option's duration.
    ///
    /// - Throws: `ValidationError` when the text is not a duration, or too long.
    package static func milliseconds(_ text: String, of option: String) throws -> Int64 {
        guard let milliseconds = Self.milliseconds(text) else { throw ValidationError("\(option) is \(Self.form)") }
        return milliseconds
    }
}
