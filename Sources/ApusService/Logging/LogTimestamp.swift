/// Formats times by RFC 3339, in UTC with milliseconds, without a formatter object.
enum LogTimestamp {
    /// Appends a time such as `2026-11-21T03:40:10.123Z`.
    static func append(nanosecondsSince1970: Int64, to text: inout [UInt8]) {
        let milliseconds = max(0, nanosecondsSince1970) / 1_000_000
        let seconds = milliseconds / 1_000
        let (year, month, day) = Self.date(daysSince1970: seconds / 86_400)
        let time = seconds % 86_400
        Self.append(year, digits: 4, to: &text)
        text.append(0x2d)
        Self.append(month, digits: 2, to: &text)
        text.append(0x2d)
        Self.append(day, digits: 2, to: &text)
        text.append(0x54)
        Self.append(time / 3_600, digits: 2, to: &text)
        text.append(0x3a)
        Self.append(time / 60 % 60, digits: 2, to: &text)
        text.append(0x3a)
        Self.append(time % 60, digits: 2, to: &text)
        text.append(0x2e)
        Self.append(milliseconds % 1_000, digits: 3, to: &text)
        text.append(0x5a)
    }

    /// Returns the civil date, computed by eras of 400 years that begin in March, so that the leap day comes last.
    ///
    /// Source: Howard Hinnant, "chrono-compatible low-level date algorithms".
    private static func date(daysSince1970: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let shifted = daysSince1970 + 719_468
        let era = shifted / 146_097
        let dayOfEra = shifted % 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
    }

    private static func append(_ value: Int64, digits: Int, to text: inout [UInt8]) {
        var divisor: Int64 = 1
        for _ in 1..<digits { divisor *= 10 }
        while divisor > 0 {
            text.append(0x30 + UInt8(value / divisor % 10))
            divisor /= 10
        }
    }
}
