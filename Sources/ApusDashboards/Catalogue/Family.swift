internal import ApusMetrics

/// What a label must be.
struct Matcher {
    private enum Kind: String {
        case equal = "="
        case unequal = "!="
        case match = "=~"
        case mismatch = "!~"
    }

    let label: String
    private let kind: Kind
    private let pattern: String

    /// That value.
    static func `is`(_ label: String, _ value: String) -> Matcher {
        Matcher(label: label, kind: .equal, pattern: value)
    }
    /// Any other value.
    static func isNot(_ label: String, _ value: String) -> Matcher {
        Matcher(label: label, kind: .unequal, pattern: value)
    }
    /// One of these.
    static func isOne(_ label: String, of values: [String]) -> Matcher {
        Matcher(label: label, kind: .match, pattern: values.joined(separator: "|"))
    }
    /// None of these.
    static func isNone(_ label: String, of values: [String]) -> Matcher {
        Matcher(label: label, kind: .mismatch, pattern: values.joined(separator: "|"))
    }
    /// What a variable of the dashboard stands for.
    static func variable(_ label: String) -> Matcher { Matcher(label: label, kind: .match, pattern: "$" + label) }

    /// The values that it names.
    var values: [String] {
        self.pattern.hasPrefix("$") ? [] : self.pattern.split(separator: "|").map(String.init)
    }

    var text: String { "\(self.label)\(self.kind.rawValue)\"\(self.pattern)\"" }
}

/// A family as queries name it. A label or a value that it does not have traps: a dashboard is code.
struct Family {
    private let definition: MetricDefinition

    init(_ definition: MetricDefinition) { self.definition = definition }

    var name: String { self.definition.name }

    /// Its series, for rules: of every job and instance.
    ///
    /// - Parameter suffix: `_bucket`, `_sum` or `_count` of a histogram.
    func series(_ matchers: [Matcher] = [], suffix: String = "") -> String {
        self.check(matchers)
        let text = matchers.map(\.text).joined(separator: ", ")
        return self.definition.name + suffix + (text.isEmpty ? "" : "{\(text)}")
    }

    /// Its series, for dashboards: of the chosen jobs and instances.
    func shown(_ matchers: [Matcher] = [], suffix: String = "") -> String {
        self.check(matchers)
        let text = ([.variable("job"), .variable("instance")] + matchers).map(\.text).joined(separator: ", ")
        return "\(self.definition.name)\(suffix){\(text)}"
    }

    private func check(_ matchers: [Matcher]) {
        for matcher in matchers {
            if matcher.label == "le" {
                precondition(self.definition.bounds.contains(matcher.values[0]), "\(self.name) has no such bucket")
                continue
            }
            precondition(
                self.definition.labelNames.contains(matcher.label),
                "\(self.name) has no label \(matcher.label)",
            )
            let known = self.definition.labelValues[matcher.label] ?? []
            for value in matcher.values {
                precondition(known.contains(value), "\(self.name): \(matcher.label) is never \(value)")
            }
        }
    }

    // MARK: Queries of dashboards

    /// How fast it grows.
    func rate(_ matchers: Matcher..., by labels: [String] = []) -> String {
        "sum\(Self.grouping(labels))(rate(\(self.shown(matchers))[$__rate_interval]))"
    }

    /// How much it has grown over the range shown.
    func growth(_ matchers: Matcher..., by labels: [String] = []) -> String {
        "sum\(Self.grouping(labels))(increase(\(self.shown(matchers))[$__range]))"
    }

    /// The sum of a gauge.
    func sum(_ matchers: Matcher..., by labels: [String] = []) -> String {
        "sum\(Self.grouping(labels))(\(self.shown(matchers)))"
    }

    /// The largest: of a gauge that tells the same on every instance.
    func max(_ matchers: Matcher..., by labels: [String] = []) -> String {
        "max\(Self.grouping(labels))(\(self.shown(matchers)))"
    }

    /// A quantile of a histogram.
    func quantile(_ quantile: String, _ matchers: Matcher..., by labels: [String] = []) -> String {
        let buckets = "rate(\(self.shown(matchers, suffix: "_bucket"))[$__rate_interval])"
        return "histogram_quantile(\(quantile), sum\(Self.grouping(["le"] + labels))(\(buckets)))"
    }

    /// The buckets of a histogram, for a heat map.
    func buckets(_ matchers: Matcher...) -> String {
        "sum by (le) (rate(\(self.shown(matchers, suffix: "_bucket"))[$__rate_interval]))"
    }

    private static func grouping(_ labels: [String]) -> String {
        labels.isEmpty ? "" : " by (\(labels.joined(separator: ", "))) "
    }
}
