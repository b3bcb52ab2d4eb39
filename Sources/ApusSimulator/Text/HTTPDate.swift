package import ApusCore

/// Formats dates for `Retry-After` (RFC 9110 §5.6.7, IMF-fixdate) and for JSON.
package enum HTTPDate {
    private static let weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// Formats a time as "Sun, 06 Nov 1994 08:49:37 GMT".
    package static func text(_ time: UnixMilliseconds) -> String {
        let days = Self.days(time)
        let date = Self.civil(days)
        let weekday = Self.weekdays[Int(((days + 4) % 7 + 7) % 7)]
        return "\(weekday), \(Self.two(date.day)) \(Self.months[date.month - 1]) \(date.year) \(Self.clock(time)) GMT"
    }

    /// Formats a time as "1994-11-06T08:49:37Z" (RFC 3339).
    package static func timestamp(_ time: UnixMilliseconds) -> String {
        let date = Self.civil(Self.days(time))
        return "\(date.year)-\(Self.two(date.month))-\(Self.two(date.day))T\(Self.clock(time))Z"
    }

    private static func days(_ time: UnixMilliseconds) -> Int64 {
        time.seconds >= 0 ? time.seconds / 86_400 : (time.seconds - 86_399) / 86_400
    }

    private static func clock(_ time: UnixMilliseconds) -> String {
        let second = Int(time.seconds - Self.days(time) * 86_400)
        return [second / 3_600, second / 60 % 60, second % 60].map(Self.two).joined(separator: ":")
    }

    private static func two(_ number: Int) -> String { number < 10 ? "0\(number)" : String(number) }

    /// Returns the Gregorian date of a day counted from 1970-01-01, after Howard Hinnant's "chrono-compatible low-level date
    /// algorithms": years begin in March, so that the leap day is a year's last.
    private static func civil(_ days: Int64) -> (year: Int, month: Int, day: Int) {
        let shifted = Int(days) + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        return (year, month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
    }
}
