/// Parses and formats durations and sizes in the form in which people write them.
public enum SettingsQuantity {
    /// The rule for a duration.
    public static let durationRule = "must be a duration with a unit, such as 250ms, 10s, 5m or 2h"
    /// The rule for a size.
    public static let sizeRule = "must be a size such as 512, 4KiB or 16MiB"

    /// Parses `250ms`, `10s`, `5m`, `2h`, `7d`; returns nil for anything else, including a number without a unit.
    public static func duration(_ text: String) -> Duration? {
        let units: [(suffix: String, milliseconds: Int64)] = [
            ("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000),
        ]
        for unit in units where text.hasSuffix(unit.suffix) {
            guard let count = Self.digits(text.dropLast(unit.suffix.count)) else { continue }
            let (milliseconds, overflow) = count.multipliedReportingOverflow(by: unit.milliseconds)
            return overflow ? nil : .milliseconds(milliseconds)
        }
        return nil
    }

    /// Parses `512`, `4KiB`, `16MiB`, `1GiB`; returns nil for anything else.
    public static func size(_ text: String) -> Int? {
        for (suffix, bytes) in [("KiB", Int64(1) << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)]
        where text.hasSuffix(suffix) {
            guard let count = Self.digits(text.dropLast(suffix.count)) else { return nil }
            let (size, overflow) = count.multipliedReportingOverflow(by: bytes)
            return overflow ? nil : Int(exactly: size)
        }
        return Self.digits(text[...]).flatMap(Int.init(exactly:))
    }

    /// Formats a duration in its shortest exact form, for messages.
    static func text(_ duration: Duration) -> String {
        let (seconds, attoseconds) = duration.components
        let milliseconds = seconds * 1_000 + attoseconds / 1_000_000_000_000_000
        for (suffix, size) in [("d", Int64(86_400_000)), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)]
        where milliseconds >= size && milliseconds.isMultiple(of: size) {
            return "\(milliseconds / size)\(suffix)"
        }
        return "\(milliseconds)ms"
    }

    private static func digits(_ text: Substring) -> Int64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return Int64(text)
    }
}
