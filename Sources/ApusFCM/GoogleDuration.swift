internal import ApusProviders

/// Parses Google's durations: seconds with at most nine decimals and an `s`, such as "3.5s".
///
/// Source: https://protobuf.dev/reference/protobuf/google.protobuf/#duration
enum GoogleDuration {
    /// Returns the milliseconds, rounded up, at most ``RetryAfter/millisecondsMax``; nil for any other text, or a negative duration.
    static func milliseconds(_ text: String) -> Int64? {
        guard let (seconds, nanoseconds) = Self.parts(text) else { return nil }
        guard seconds < RetryAfter.millisecondsMax / 1_000 else { return RetryAfter.millisecondsMax }
        return seconds * 1_000 + (nanoseconds + 999_999) / 1_000_000
    }

    /// Returns the whole seconds and the nanoseconds; nil for any other text, or a negative duration.
    static func parts(_ text: String) -> (seconds: Int64, nanoseconds: Int64)? {
        let parts = text.dropLast().split(separator: ".", omittingEmptySubsequences: false)
        let areDigits = parts.allSatisfy { part in
            (1...9).contains(part.utf8.count) && part.utf8.allSatisfy { (0x30...0x39).contains($0) }
        }
        guard text.utf8.last == 0x73, (1...2).contains(parts.count), areDigits, let seconds = Int64(parts[0]) else {
            return nil
        }
        guard parts.count == 2 else { return (seconds, 0) }
        let zeros = String(repeating: "0", count: 9 - parts[1].utf8.count)
        return Int64(parts[1] + zeros).map { (seconds, $0) }
    }
}
