/// Checks the rules of `promtool check metrics` (client_golang's promlint) and of both text formats.
///
/// The check runs when a family is declared, so that a name that the linter would refuse cannot be built at all.
public enum MetricNameRules {
    /// Checks a declaration; returns promlint's message about it, or nil when it is valid.
    public static func violation(name: String, kind: MetricKind, help: String, labelNames: [String]) -> String? {
        if help.isEmpty { return "no help text" }
        guard isSnakeCase(name) else { return "metric names should be written in 'snake_case'" }
        let parts = name.split(separator: "_", omittingEmptySubsequences: false).map(String.init)
        if let message = self.kindViolation(name: name, kind: kind, parts: parts) { return message }
        if let message = self.unitViolation(parts: parts) { return message }
        for label in labelNames {
            guard isSnakeCase(label), !label.hasPrefix("__") else {
                return "label names should be written in 'snake_case'"
            }
            if label == "le" || label == "quantile" { return "the label \"\(label)\" is reserved" }
        }
        guard Set(labelNames).count == labelNames.count else { return "a label is named twice" }
        return nil
    }

    private static func kindViolation(name: String, kind: MetricKind, parts: [String]) -> String? {
        switch kind {
        case .counter where !name.hasSuffix("_total"): return "counter metrics should have \"_total\" suffix"
        case .info where !name.hasSuffix("_info"): return "info metrics should have \"_info\" suffix"
        case .gauge where name.hasSuffix("_info"): return "\"_info\" is for info metrics"
        case .counter, .gauge, .histogram, .info: break
        }
        if kind != .counter, name.hasSuffix("_total") {
            return "non-counter metrics should not have \"_total\" suffix"
        }
        for suffix in ["_bucket", "_count", "_sum", "_created"] where name.hasSuffix(suffix) {
            return "\"\(suffix)\" is reserved"
        }
        for type in ["gauge", "counter", "histogram", "summary"] where parts.contains(type) {
            return "metric name should not include type '\(type)'"
        }
        return nil
    }

    private static func unitViolation(parts: [String]) -> String? {
        for part in parts {
            if self.abbreviations.contains(part) { return "metric names should not contain abbreviated units" }
            if let base = self.otherUnits[part] { return "use base unit \"\(base)\" instead of \"\(part)\"" }
        }
        return nil
    }

    private static let abbreviations: Set<String> = [
        "s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d",
    ]
    private static let baseUnits = [
        "amperes", "bytes", "celsius", "grams", "joules", "kelvin", "kelvins", "meters", "metres", "moles", "seconds",
        "volts",
    ]
    private static let prefixes = [
        "pico", "nano", "micro", "milli", "centi", "deci", "deca", "hecto", "kilo", "kibi", "mega", "mibi", "mebi",
        "giga", "gibi", "tera", "tebi", "peta", "pebi",
    ]
    /// The base unit of each other unit: of a prefix with a base unit, and of those that have a name of their own.
    private static let otherUnits: [String: String] = {
        var units = [
            "minutes": "seconds", "hours": "seconds", "days": "seconds", "weeks": "seconds", "bits": "bytes",
        ]
        for unit in Self.baseUnits {
            for prefix in Self.prefixes { units[prefix + unit] = unit }
        }
        return units
    }()

    private static func isSnakeCase(_ name: String) -> Bool {
        guard let first = name.utf8.first, (0x61...0x7a).contains(first) else { return false }
        return name.utf8.allSatisfy { byte in
            (0x61...0x7a).contains(byte) || (0x30...0x39).contains(byte) || byte == 0x5f
        }
    }
}
