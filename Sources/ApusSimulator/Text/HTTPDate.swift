package import ApusCore

/// Formats dates for `Retry-After` (RFC 9110 §5.6.7, IMF-fixdate).
package enum HTTPDate {
    private static let weekdays = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// Formats a time as "Sun, 06 Nov 1994 08:49:37 GMT".
    package static func text(_ time: UnixMilliseconds) -> String {
        let date = time.date
        let weekday = Self.weekdays[((time.days + 4) % 7 + 7) % 7]
        return "\(weekday), \(Self.two(date.day)) \(Self.months[date.month - 1]) \(date.year) \(Self.clock(time)) GMT"
    }

    private static func clock(_ time: UnixMilliseconds) -> String {
        let second = time.secondOfDay
        return [second / 3_600, second / 60 % 60, second % 60].map(Self.two).joined(separator: ":")
    }

    private static func two(_ number: Int) -> String { number < 10 ? "0\(number)" : String(number) }
}
