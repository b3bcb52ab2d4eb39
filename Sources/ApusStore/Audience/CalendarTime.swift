package import ApusCore

/// Reads and writes times as expressions have them: `2026-03-01` or `2026-03-01T12:30:00Z` (RFC 3339, UTC only).
package enum CalendarTime {
    /// The units of a length of time, the longest first, seconds last.
    static let units: [(name: String, seconds: UInt64)] = [
        ("w", 604_800), ("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1),
    ]

    /// Returns the time of that text; nil when the text is not a time.
    package static func parse(_ text: String) -> UnixMilliseconds? {
        let bytes = Array(text.utf8)
        guard bytes.count == 10 || bytes.count == 20, bytes[4] == 0x2d, bytes[7] == 0x2d,
            let year = Self.number(bytes[0..<4]), let month = Self.number(bytes[5..<7]),
            let day = Self.number(bytes[8..<10]), (1...12).contains(month), year >= 1970,
            (1...Self.length(month, year)).contains(day)
        else { return nil }
        var seconds = Self.days(year, month, day) * 86_400
        if bytes.count == 20 {
            guard bytes[10] == 0x54, bytes[13] == 0x3a, bytes[16] == 0x3a, bytes[19] == 0x5a,
                let hour = Self.number(bytes[11..<13]), let minute = Self.number(bytes[14..<16]),
                let second = Self.number(bytes[17..<19]), hour < 24, minute < 60, second < 60
            else { return nil }
            seconds += hour * 3_600 + minute * 60 + second
        }
        return UnixMilliseconds(seconds: Int64(seconds))
    }

    /// Returns the text of a time from 1970 to 9999, without its milliseconds; only the date at midnight.
    package static func text(_ time: UnixMilliseconds) -> String {
        let seconds = Int(max(0, min(time, Limits.timeMax).seconds))
        var (year, days) = (1970, seconds / 86_400)
        while days >= Self.length(year) {
            days -= Self.length(year)
            year += 1
        }
        var month = 1
        while days >= Self.length(month, year) {
            days -= Self.length(month, year)
            month += 1
        }
        let date = "\(Self.digits(year, 4))-\(Self.digits(month, 2))-\(Self.digits(days + 1, 2))"
        let rest = seconds % 86_400
        guard rest > 0 else { return date }
        let clock = [rest / 3_600, rest / 60 % 60, rest % 60].map { Self.digits($0, 2) }
        return "\(date)T\(clock.joined(separator: ":"))Z"
    }

    private static func days(_ year: Int, _ month: Int, _ day: Int) -> Int {
        let years = (1970..<year).reduce(0) { $0 + Self.length($1) }
        return years + (1..<month).reduce(0) { $0 + Self.length($1, year) } + day - 1
    }

    private static func isLeap(_ year: Int) -> Bool {
        year.isMultiple(of: 4) && (!year.isMultiple(of: 100) || year.isMultiple(of: 400))
    }

    private static func length(_ year: Int) -> Int { Self.isLeap(year) ? 366 : 365 }

    private static func length(_ month: Int, _ year: Int) -> Int {
        switch month {
        case 2: Self.isLeap(year) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> Int? {
        var number = 0
        for digit in digits {
            guard (0x30...0x39).contains(digit) else { return nil }
            number = number * 10 + Int(digit - 0x30)
        }
        return number
    }

    private static func digits(_ number: Int, _ count: Int) -> String {
        let text = String(number)
        return String(repeating: "0", count: max(0, count - text.count)) + text
    }
}
