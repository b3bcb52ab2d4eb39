/// Orders versions: `3.10` after `3.9`, `3.2` equal to `3.2.0`, `4.0-beta.2` before `4.0` (https://semver.org §11, with any number of
/// numbers). What follows `+`, a space or `(` is a build and does not count.
package enum VersionOrder {
    /// Returns true when the text is a version.
    package static func isVersion(_ text: Span<UInt8>) -> Bool { Self.coreEnd(text) != nil }

    /// Returns a negative number, zero or a positive one as the first version is before, equal to or after the second; nil when either text
    /// is not a version. Allocates nothing.
    package static func compare(_ one: Span<UInt8>, _ other: Span<UInt8>) -> Int? {
        guard let oneEnd = Self.coreEnd(one), let otherEnd = Self.coreEnd(other) else { return nil }
        var (start, otherStart) = (0, 0)
        while start < oneEnd || otherStart < otherEnd {
            let number = Self.part(one, &start, oneEnd)
            let otherNumber = Self.part(other, &otherStart, otherEnd)
            let order = Self.compareNumbers(one, number, other, otherNumber)
            if order != 0 { return order }
        }
        return Self.compareSuffixes(one, oneEnd, other, otherEnd)
    }

    /// Returns the end of the numbers; nil when the text does not begin with numbers joined by dots.
    private static func coreEnd(_ text: Span<UInt8>) -> Int? {
        var index = 0
        while true {
            let start = index
            while index < text.count, Self.isDigit(text[index]) { index += 1 }
            guard index > start else { return nil }
            guard index < text.count else { return index }
            switch text[index] {
            case 0x2e: index += 1
            case 0x2d, 0x2b, 0x20, 0x28: return index
            default: return nil
            }
        }
    }

    /// Returns the part before the next dot or the end; empty at the end.
    private static func part(_ text: Span<UInt8>, _ start: inout Int, _ end: Int) -> Range<Int> {
        let first = start
        while start < end, text[start] != 0x2e { start += 1 }
        let part = first..<start
        if start < end { start += 1 }
        return part
    }

    /// Compares numbers of any length; an empty one is zero.
    private static func compareNumbers(
        _ one: Span<UInt8>,
        _ number: Range<Int>,
        _ other: Span<UInt8>,
        _ otherNumber: Range<Int>,
    ) -> Int {
        let (digits, otherDigits) = (Self.trimmed(one, number), Self.trimmed(other, otherNumber))
        guard digits.count == otherDigits.count else { return digits.count - otherDigits.count }
        return Self.compareBytes(one, digits, other, otherDigits)
    }

    private static func trimmed(_ text: Span<UInt8>, _ number: Range<Int>) -> Range<Int> {
        var first = number.lowerBound
        while first < number.upperBound, text[first] == 0x30 { first += 1 }
        return first..<number.upperBound
    }

    private static func compareBytes(
        _ one: Span<UInt8>,
        _ range: Range<Int>,
        _ other: Span<UInt8>,
        _ otherRange: Range<Int>,
    ) -> Int {
        for offset in 0..<min(range.count, otherRange.count) {
            let (byte, otherByte) = (one[range.lowerBound + offset], other[otherRange.lowerBound + offset])
            if byte != otherByte { return Int(byte) - Int(otherByte) }
        }
        return range.count - otherRange.count
    }

    /// Compares suffixes: no suffix comes after any; else identifier by identifier, numbers before words.
    private static func compareSuffixes(_ one: Span<UInt8>, _ end: Int, _ other: Span<UInt8>, _ otherEnd: Int) -> Int {
        let (suffix, otherSuffix) = (Self.suffix(one, end), Self.suffix(other, otherEnd))
        guard !suffix.isEmpty, !otherSuffix.isEmpty else {
            return suffix.isEmpty == otherSuffix.isEmpty ? 0 : suffix.isEmpty ? 1 : -1
        }
        var (start, otherStart) = (suffix.lowerBound, otherSuffix.lowerBound)
        while start < suffix.upperBound, otherStart < otherSuffix.upperBound {
            let part = Self.part(one, &start, suffix.upperBound)
            let otherPart = Self.part(other, &otherStart, otherSuffix.upperBound)
            let order =
                switch (Self.isNumber(one, part), Self.isNumber(other, otherPart)) {
                case (true, true): Self.compareNumbers(one, part, other, otherPart)
                case (true, false): -1
                case (false, true): 1
                case (false, false): Self.compareBytes(one, part, other, otherPart)
                }
            if order != 0 { return order }
        }
        return (suffix.upperBound - start).signum() - (otherSuffix.upperBound - otherStart).signum()
    }

    private static func suffix(_ text: Span<UInt8>, _ end: Int) -> Range<Int> {
        guard end < text.count, text[end] == 0x2d else { return end..<end }
        var last = end + 1
        while last < text.count, text[last] != 0x2b, text[last] != 0x20, text[last] != 0x28 { last += 1 }
        return (end + 1)..<last
    }

    private static func isNumber(_ text: Span<UInt8>, _ range: Range<Int>) -> Bool {
        for index in range where !Self.isDigit(text[index]) { return false }
        return !range.isEmpty
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }
}
