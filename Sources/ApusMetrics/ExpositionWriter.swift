/// Renders a snapshot in either format from one table. Pure.
///
/// Names and label blocks are bytes that are made once; only families with a configured label are laid out at each scrape.
struct ExpositionWriter: Sendable {
    /// One sample: its text up to the value, and the source of the value.
    private struct Line {
        enum Value {
            case cell(Int)
            /// A bucket, which is added to the buckets before it.
            case bucket(Int, isFirst: Bool, exemplar: Int?)
            case sum(Int)
            /// The sum of all buckets, which precede it.
            case count
            case one
        }

        let text: [UInt8]
        let value: Value
    }

    private struct Entry {
        let family: MetricFamily
        /// The lines; nil when they are laid out at each scrape.
        let lines: [Line]?
        let textHead: [UInt8]
        let openMetricsHead: [UInt8]
    }

    private let entries: [Entry]

    init(families: [MetricFamily]) {
        self.entries = families.sorted { $0.familyName < $1.familyName }.map { family in
            Entry(
                family: family,
                lines: family.dimensions.allSatisfy(\.isClosed) ? Self.lines(of: family) : nil,
                textHead: Self.textHead(of: family),
                openMetricsHead: Self.openMetricsHead(of: family),
            )
        }
    }

    func render(_ snapshot: MetricSnapshot, as format: ExpositionFormat) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(128 * 1_024)
        for entry in self.entries {
            let head =
                switch format {
                case .prometheusText: entry.textHead
                case .openMetrics: entry.openMetricsHead
                }
            let start = text.count
            text += head
            let end = text.count
            self.append(entry, snapshot, format, to: &text)
            // A family without a sample is omitted.
            if text.count == end { text.removeSubrange(start...) }
        }
        if format == .openMetrics { text += "# EOF\n".utf8 }
        return text
    }

    private func append(
        _ entry: Entry,
        _ snapshot: MetricSnapshot,
        _ format: ExpositionFormat,
        to text: inout [UInt8],
    ) {
        let scale = entry.family.scale
        var running: Int64 = 0
        for line in entry.lines ?? Self.lines(of: entry.family) {
            if case .cell(let index) = line.value, snapshot.cells[index] == MetricSnapshot.absent { continue }
            text += line.text
            switch line.value {
            case .cell(let index): scale.append(snapshot.cells[index], to: &text)
            case .bucket(let index, let isFirst, let exemplar):
                running = isFirst ? snapshot.cells[index] : running &+ snapshot.cells[index]
                MetricScale.one.append(running, to: &text)
                if format == .openMetrics, let exemplar {
                    Self.append(snapshot.exemplars[exemplar], scale: scale, to: &text)
                }
            case .sum(let index): text += scale.real(snapshot.sums[index]).description.utf8
            case .count: MetricScale.one.append(running, to: &text)
            case .one: text.append(0x31)
            }
            text.append(0x0a)
        }
    }

    /// Appends ` # {trace_id="…"} value time`; nothing when the bucket has no exemplar.
    private static func append(_ exemplar: MetricExemplar, scale: MetricScale, to text: inout [UInt8]) {
        guard exemplar != .none else { return }
        text += " # {trace_id=\"\(exemplar.trace)\"} ".utf8
        scale.append(exemplar.value, to: &text)
        text.append(0x20)
        MetricScale.thousandths.append(exemplar.milliseconds, to: &text)
    }

    private static func lines(of family: MetricFamily) -> [Line] {
        family.children.flatMap { child -> [Line] in
            switch family.kind {
            case .counter, .gauge:
                return [
                    Line(text: Self.sample(family.name, child.labels), value: .cell(family.cell + child.index))
                ]
            case .info: return [Line(text: Self.sample(family.name, child.labels), value: .one)]
            case .histogram: return Self.histogramLines(of: family, child.index, child.labels)
            }
        }
    }

    private static func histogramLines(
        of family: MetricFamily,
        _ index: Int,
        _ labels: [(name: String, value: String)],
    ) -> [Line] {
        guard let buckets = family.buckets else { preconditionFailure("\(family.name) has no buckets") }
        let bounds = buckets.bounds.map(buckets.scale.bound) + ["+Inf"]
        let first = family.cell + index * family.cellsPerChild
        var lines = bounds.enumerated().map { place, bound in
            Line(
                text: Self.sample(family.name + "_bucket", labels + [(name: "le", value: bound)]),
                value: .bucket(
                    first + place,
                    isFirst: place == 0,
                    exemplar: family.exemplar.map { $0 + index * family.cellsPerChild + place },
                ),
            )
        }
        lines.append(Line(text: Self.sample(family.name + "_sum", labels), value: .sum(family.sum + index)))
        lines.append(Line(text: Self.sample(family.name + "_count", labels), value: .count))
        return lines
    }

    /// Returns `name{label="value"} ` with the space before the value.
    private static func sample(_ name: String, _ labels: [(name: String, value: String)]) -> [UInt8] {
        var text = Array(name.utf8)
        if !labels.isEmpty {
            text.append(0x7b)
            for (place, label) in labels.enumerated() {
                if place > 0 { text.append(0x2c) }
                text += label.name.utf8
                text += "=\"".utf8
                self.appendEscaped(label.value, quotes: true, to: &text)
                text.append(0x22)
            }
            text.append(0x7d)
        }
        text.append(0x20)
        return text
    }

    /// Returns the head of 0.0.4: the full name; an info is a gauge there.
    private static func textHead(of family: MetricFamily) -> [UInt8] {
        var text = Array("# HELP \(family.name) ".utf8)
        self.appendEscaped(family.help, quotes: false, to: &text)
        let type = family.kind == .info ? .gauge : family.kind
        text += "\n# TYPE \(family.name) \(type.rawValue)\n".utf8
        return text
    }

    /// Returns the head of OpenMetrics: the name without its suffix, the unit, and quotes escaped in the help too.
    private static func openMetricsHead(of family: MetricFamily) -> [UInt8] {
        let name = family.familyName
        var text = Array("# TYPE \(name) \(family.kind.rawValue)\n".utf8)
        if let unit = family.unit { text += "# UNIT \(name) \(unit)\n".utf8 }
        text += "# HELP \(name) ".utf8
        self.appendEscaped(family.help, quotes: true, to: &text)
        text.append(0x0a)
        return text
    }

    private static func appendEscaped(_ value: String, quotes: Bool, to text: inout [UInt8]) {
        for byte in value.utf8 {
            switch byte {
            case 0x5c: text += [0x5c, 0x5c]
            case 0x0a: text += [0x5c, 0x6e]
            case 0x22 where quotes: text += [0x5c, 0x22]
            default: text.append(byte)
            }
        }
    }
}
