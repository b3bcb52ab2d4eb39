internal import ApusMetrics

/// A condition on the value of a label.
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

    /// The label has exactly this value.
    static func `is`(_ label: String, _ value: String) -> Matcher {
        Matcher(label: label, kind: .equal, pattern: value)
    }
    /// The label has any value except this one.
    static func isNot(_ label: String, _ value: String) -> Matcher {
        Matcher(label: label, kind: .unequal, pattern: value)
    }
    /// The label has one of these values.
    static func isOne(_ label: String, of values: [String]) -> Matcher {
        Matcher(label: label, kind: .match, pattern: values.joined(separator: "|"))
    }
    /// The label has none of these values.
    static func isNone(_ label: String, of values: [String]) -> Matcher {
        Matcher(label: label, kind: .mismatch, pattern: values.joined(separator: "|"))
    }
    /// The label has one of the values selected in a variable of the dashboard.
    static func variable(_ label: String) -> Matcher { Matcher(label: label, kind: .match, pattern: "$" + label) }

    /// The label is a route of one of the providers selected in the variable `provider` of the dashboard.
    static func routeOfChosenProvider(_ label: String) -> Matcher {
        Matcher(label: label, kind: .match, pattern: ".+/$provider/.+")
    }

    /// The label values that the condition names. `Family` checks them when it builds a query.
    var values: [String] {
        self.pattern.contains("$") ? [] : self.pattern.split(separator: "|").map(String.init)
    }

    var text: String { "\(self.label)\(self.kind.rawValue)\"\(self.pattern)\"" }
}

/// A metric family to use in queries. An unknown label or label value is a programming error and traps.
struct Family {
    private let definition: MetricDefinition

    init(_ definition: MetricDefinition) { self.definition = definition }

    var name: String { self.definition.name }

    /// The selector for rules: the series of every job and instance.
    ///
    /// - Parameter suffix: `_bucket`, `_sum` or `_count` of a histogram.
    func series(_ matchers: [Matcher] = [], suffix: String = "") -> String {
        self.check(matchers)
        let text = matchers.map(\.text).joined(separator: ", ")
        return self.definition.name + suffix + (text.isEmpty ? "" : "{\(text)}")
    }

    /// The selector for dashboards: the series of the jobs and instances that are selected in the dashboard.
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

    /// The increase per second.
    func rate(_ matchers: Matcher..., by labels: [String] = []) -> String {
        "sum\(Self.grouping(labels))(rate(\(self.shown(matchers))[$__rate_interval]))"
    }

    /// The increase over the time range that the dashboard shows.
    func growth(_ matchers: Matcher..., by labels: [String] = []) -> String {
        "sum\(Self.grouping(labels))(increase(\(self.shown(matchers))[$__range]))"
    }

    /// The sum of a gauge over its series.
    func sum(_ matchers: Matcher..., by labels: [String] = []) -> String {
        "sum\(Self.grouping(labels))(\(self.shown(matchers)))"
    }

    /// The maximum of a gauge. Used for gauges that have the same value on every instance.
    func max(_ matchers: Matcher..., by labels: [String] = []) -> String {
        "max\(Self.grouping(labels))(\(self.shown(matchers)))"
    }

    /// A quantile of a histogram.
    func quantile(_ quantile: String, _ matchers: Matcher..., by labels: [String] = []) -> String {
        let buckets = "rate(\(self.shown(matchers, suffix: "_bucket"))[$__rate_interval])"
        return "histogram_quantile(\(quantile), sum\(Self.grouping(["le"] + labels))(\(buckets)))"
    }

    /// The increase of each bucket of a histogram, for a heat map.
    func buckets(_ matchers: Matcher...) -> String {
        "sum by (le) (rate(\(self.shown(matchers, suffix: "_bucket"))[$__rate_interval]))"
    }

    private static func grouping(_ labels: [String]) -> String {
        labels.isEmpty ? "" : " by (\(labels.joined(separator: ", "))) "
    }
}
