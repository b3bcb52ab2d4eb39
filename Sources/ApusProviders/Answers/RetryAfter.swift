package import ApusCore

/// Parses `Retry-After` in both forms, seconds and an HTTP date (RFC 9110 §10.2.3).
package enum RetryAfter {
    /// The maximum wait, a day; longer ones are reduced to it.
    package static let millisecondsMax: Int64 = 86_400_000

    /// Returns the milliseconds to wait from now; 0 for a date that has passed; nil for neither form.
    package static func milliseconds(_ value: String, now: UnixMilliseconds) -> Int64? {
        let text = value.trimmingSpaces
        if let seconds = Self.seconds(text) { return min(seconds, Self.millisecondsMax / 1_000) * 1_000 }
        guard let date = HTTPDate.parse(text, now: now) else { return nil }
        return min(max(0, date.milliseconds(since: now)), Self.millisecondsMax)
    }

    private static func seconds(_ text: Substring) -> Int64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        // The text has only digits: a number that does not fit is very large.
        return Int64(text) ?? .max
    }
}

/// Parses the three forms of a date in HTTP (RFC 9110 §5.6.7); a recipient must accept all of them.
enum HTTPDate {
    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    /// Returns the time, or nil. `now` decides the century of a two-digit year.
    static func parse(_ text: Substring, now: UnixMilliseconds) -> UnixMilliseconds? {
        let words = text.split(separator: " ", omittingEmptySubsequences: true)
        switch words.count {
        // Sun, 06 Nov 1994 08:49:37 GMT
        case 6 where words[5] == "GMT" && words[3].utf8.count == 4:
            return Self.time(day: words[1], month: words[2], year: Self.number(words[3]), clock: words[4])
        // Sunday, 06-Nov-94 08:49:37 GMT
        case 4 where words[3] == "GMT":
            let parts = words[1].split(separator: "-", omittingEmptySubsequences: false)
            guard parts.count == 3, parts[2].utf8.count == 2, let short = Self.number(parts[2]) else { return nil }
            // "More than 50 years in the future" means the most recent year in the past with the same digits.
            let thisYear = 1_970 + Int(now.seconds / 31_556_952)
            var year = thisYear - thisYear % 100 + short
            if year > thisYear + 50 { year -= 100 }
            return Self.time(day: parts[0], month: parts[1], year: year, clock: words[2])
        // Sun Nov  6 08:49:37 1994
        case 5 where words[4].utf8.count == 4:
            return Self.time(day: words[2], month: words[1], year: Self.number(words[4]), clock: words[3])
        default: return nil
        }
    }

    private static func time(day: Substring, month: Substring, year: Int?, clock: Substring) -> UnixMilliseconds? {
        let parts = clock.split(separator: ":", omittingEmptySubsequences: false)
        guard let year, (1_970...9_999).contains(year), let month = Self.months.firstIndex(of: String(month)),
            let day = Self.number(day), (1...31).contains(day), parts.count == 3, let hour = Self.number(parts[0]),
            let minute = Self.number(parts[1]), let second = Self.number(parts[2]), hour < 24, minute < 60, second <= 60
        else { return nil }
        let days = CivilDate(year: year, month: month + 1, day: day).daysSince1970
        return UnixMilliseconds(seconds: Int64(days * 86_400 + hour * 3_600 + minute * 60 + second))
    }

    private static func number(_ text: Substring) -> Int? {
        guard (1...4).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return Int(text)
    }
}

extension String {
    /// The text without spaces and tabs at its ends.
    fileprivate var trimmingSpaces: Substring {
        var text = self[...]
        while let first = text.utf8.first, first == 0x20 || first == 0x09 { text = text.dropFirst() }
        while let last = text.utf8.last, last == 0x20 || last == 0x09 { text = text.dropLast() }
        return text
    }
}
