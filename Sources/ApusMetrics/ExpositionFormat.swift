/// The two text formats of an exposition.
public enum ExpositionFormat: Sendable, Hashable, CaseIterable {
    /// Prometheus text 0.0.4.
    case prometheusText
    /// OpenMetrics text 1.0.0.
    case openMetrics

    /// The value of the Content-Type header; Prometheus 3 refuses a scrape without a valid one.
    public var contentType: String {
        switch self {
        case .prometheusText: "text/plain; version=0.0.4; charset=utf-8"
        case .openMetrics: "application/openmetrics-text; version=1.0.0; charset=utf-8"
        }
    }

    /// Chooses a format by the Accept header: the known type with the highest weight, the first of equals; 0.0.4 when none is known.
    ///
    /// Source: https://prometheus.io/docs/instrumenting/content_negotiation/ and RFC 9110 §12.5.1.
    public static func negotiated(accept: String?) -> ExpositionFormat {
        var best: (format: ExpositionFormat, weight: Double)?
        for range in (accept ?? "").split(separator: ",").prefix(Self.rangesMax) {
            guard let (format, weight) = Self.parse(range), weight > 0 else { continue }
            if let best, best.weight >= weight { continue }
            best = (format, weight)
        }
        return best?.format ?? .prometheusText
    }

    /// The maximum number of media ranges that are considered.
    private static let rangesMax = 32

    private static func parse(_ range: Substring) -> (ExpositionFormat, Double)? {
        let parts = range.split(separator: ";", omittingEmptySubsequences: false).map { trimmed($0).lowercased() }
        var weight = 1.0
        var version: String?
        for parameter in parts.dropFirst() {
            if parameter.hasPrefix("q=") {
                guard let value = Double(parameter.dropFirst(2)), (0...1).contains(value) else { return nil }
                weight = value
            } else if parameter.hasPrefix("version=") {
                version = parameter.dropFirst("version=".count).filter { $0 != "\"" }
            }
        }
        switch parts.first {
        case "application/openmetrics-text":
            guard version == nil || version == "1.0.0" else { return nil }
            return (.openMetrics, weight)
        case "text/plain":
            guard version == nil || version == "0.0.4" else { return nil }
            return (.prometheusText, weight)
        case "*/*", "text/*": return (.prometheusText, weight)
        default: return nil
        }
    }

    private static func trimmed(_ text: Substring) -> Substring {
        var text = text
        while let first = text.first, first == " " || first == "\t" { text.removeFirst() }
        while let last = text.last, last == " " || last == "\t" { text.removeLast() }
        return text
    }
}
