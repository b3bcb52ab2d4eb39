/// Converts between days since 1970-01-01 and dates of the Gregorian calendar.
///
/// Source: Howard Hinnant, "chrono-compatible low-level date algorithms". Years begin in March there, so that the leap day comes last, and
/// repeat in eras of 400 years.
package struct CivilDate: Hashable, Sendable {
    /// The year.
    package let year: Int
    /// The month, from 1.
    package let month: Int
    /// The day of the month, from 1.
    package let day: Int

    /// Creates a date; the day may be beyond the end of the month.
    package init(year: Int, month: Int, day: Int) {
        self.year = year
        self.month = month
        self.day = day
    }

    /// Creates the date of a day.
    package init(daysSince1970 days: Int) {
        let shifted = days + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        self.month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        self.year = yearOfEra + era * 400 + (self.month <= 2 ? 1 : 0)
        self.day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
    }

    /// The days since 1970-01-01.
    package var daysSince1970: Int {
        let shifted = self.month > 2 ? self.year : self.year - 1
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (self.month + (self.month > 2 ? -3 : 9)) + 2) / 5 + self.day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }
}

extension UnixMilliseconds {
    /// The time in whole seconds by RFC 3339, such as `2026-11-21T03:40:10Z`.
    package var timestamp: String {
        let (seconds, date) = (self.secondOfDay, self.date)
        func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let clock = [seconds / 3_600, seconds / 60 % 60, seconds % 60].map(two).joined(separator: ":")
        return "\(date.year)-\(two(date.month))-\(two(date.day))T\(clock)Z"
    }

    /// The date in UTC.
    package var date: CivilDate { CivilDate(daysSince1970: self.days) }

    /// The whole seconds since midnight in UTC.
    package var secondOfDay: Int { Int(self.seconds) - self.days * 86_400 }

    /// The days since 1970-01-01, rounded down.
    package var days: Int { Int(self.seconds >= 0 ? self.seconds / 86_400 : (self.seconds + 1) / 86_400 - 1) }

    /// Parses a time by RFC 3339: `2026-11-21T03:40:10Z`, also with a fraction, with an offset such as `+01:00`, or with a space for the `T`.
    /// Nil when the text is not one, or before 1970.
    package init?(timestamp text: String) {
        var rest = Array(text.utf8)[...]
        func number(_ digits: Int) -> Int? {
            guard rest.count >= digits, rest.prefix(digits).allSatisfy({ (0x30...0x39).contains($0) }) else {
                return nil
            }
            defer { rest = rest.dropFirst(digits) }
            return rest.prefix(digits).reduce(0) { $0 * 10 + Int($1 - 0x30) }
        }
        func skip(_ signs: String) -> Bool {
            guard let first = rest.first, signs.utf8.contains(first) else { return false }
            rest = rest.dropFirst()
            return true
        }
        guard let year = number(4), skip("-"), let month = number(2), skip("-"), let day = number(2), skip("Tt "),
            let hour = number(2), skip(":"), let minute = number(2), skip(":"), let second = number(2),
            hour < 24, minute < 60, second <= 60
        else { return nil }
        let date = CivilDate(year: year, month: month, day: day)
        guard year >= 1_970, (1...12).contains(month), CivilDate(daysSince1970: date.daysSince1970) == date else {
            return nil
        }
        var milliseconds = 0
        if skip(".") {
            var scale = 100
            guard rest.first.map({ (0x30...0x39).contains($0) }) ?? false else { return nil }
            while let digit = number(1) {
                milliseconds += digit * scale
                scale /= 10
            }
        }
        var offset = 0
        if !skip("Zz") {
            let isEast = rest.first == 0x2b
            guard skip("+-"), let hours = number(2), skip(":"), let minutes = number(2), hours < 24, minutes < 60 else {
                return nil
            }
            offset = (hours * 60 + minutes) * (isEast ? 60 : -60)
        }
        guard rest.isEmpty else { return nil }
        let seconds = date.daysSince1970 * 86_400 + hour * 3_600 + minute * 60 + second - offset
        self.init(Int64(seconds * 1_000 + milliseconds))
    }
}
