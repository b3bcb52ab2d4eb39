internal import ApusCore

/// Formats times by RFC 3339, in UTC with milliseconds, without a formatter object.
enum LogTimestamp {
    /// Appends a time such as `2026-11-21T03:40:10.123Z`.
    static func append(nanosecondsSince1970: Int64, to text: inout [UInt8]) {
        let milliseconds = max(0, nanosecondsSince1970) / 1_000_000
        let instant = UnixMilliseconds(milliseconds)
        let (date, time) = (instant.date, instant.secondOfDay)
        Self.append(date.year, digits: 4, to: &text)
        text.append(0x2d)
        Self.append(date.month, digits: 2, to: &text)
        text.append(0x2d)
        Self.append(date.day, digits: 2, to: &text)
        text.append(0x54)
        Self.append(time / 3_600, digits: 2, to: &text)
        text.append(0x3a)
        Self.append(time / 60 % 60, digits: 2, to: &text)
        text.append(0x3a)
        Self.append(time % 60, digits: 2, to: &text)
        text.append(0x2e)
        Self.append(Int(milliseconds % 1_000), digits: 3, to: &text)
        text.append(0x5a)
    }

    private static func append(_ value: Int, digits: Int, to text: inout [UInt8]) {
        var divisor = 1
        for _ in 1..<digits { divisor *= 10 }
        while divisor > 0 {
            text.append(0x30 + UInt8(value / divisor % 10))
            divisor /= 10
        }
    }
}
