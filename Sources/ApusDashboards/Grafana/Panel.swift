/// The unit of a panel. The raw value is Grafana's name of the unit.
enum PanelUnit: String {
    case perSecond = "ops"
    case seconds = "s"
    case share = "percentunit"
    case count = "short"
    case bytes = "bytes"
    case bytesPerSecond = "Bps"
}

/// A query of a panel, which yields one or more series.
struct PanelQuery {
    let expression: String
    /// The name of each series. `{{label}}` is replaced with the value of the label.
    let legend: String

    init(_ expression: String, _ legend: String = "") {
        self.expression = expression
        self.legend = legend
    }
}

/// A panel of a dashboard.
struct Panel {
    /// The way a panel shows its series.
    enum Kind {
        /// Shows one number for each series, coloured red, orange or green by the given limits.
        case stat(PanelBounds?)
        /// Shows lines over time.
        case lines(isStacked: Bool)
        /// Shows the buckets of a histogram over time.
        case heatmap
        /// Shows a table with one row for each current series and one column for each label.
        case table
    }

    let kind: Kind
    let title: String
    let description: String
    let unit: PanelUnit
    /// The width, in grid columns. A dashboard has 24.
    let width: Int
    let queries: [PanelQuery]

    var height: Int {
        switch self.kind {
        case .stat: 4
        case .lines, .heatmap, .table: 8
        }
    }

    static func stat(
        _ title: String,
        _ description: String,
        _ unit: PanelUnit,
        _ expression: String,
        bounds: PanelBounds? = nil,
    ) -> Panel {
        .stats(title, description, unit, PanelQuery(expression), width: 4, bounds: bounds)
    }

    /// A panel of single numbers side by side. It takes the whole width unless another width is given.
    static func stats(
        _ title: String,
        _ description: String,
        _ unit: PanelUnit,
        _ query: PanelQuery,
        width: Int = 24,
        bounds: PanelBounds? = nil,
    ) -> Panel {
        Panel(
            kind: .stat(bounds),
            title: title,
            description: description,
            unit: unit,
            width: width,
            queries: [query],
        )
    }

    static func lines(
        _ title: String,
        _ description: String,
        _ unit: PanelUnit,
        width: Int = 8,
        isStacked: Bool = false,
        _ queries: PanelQuery...,
    ) -> Panel {
        Panel(
            kind: .lines(isStacked: isStacked),
            title: title,
            description: description,
            unit: unit,
            width: width,
            queries: queries,
        )
    }

    static func heatmap(_ title: String, _ description: String, width: Int = 12, _ buckets: String) -> Panel {
        Panel(
            kind: .heatmap,
            title: title,
            description: description,
            unit: .seconds,
            width: width,
            queries: [PanelQuery(buckets, "{{le}}")],
        )
    }

    static func table(_ title: String, _ description: String, width: Int = 24, _ expression: String) -> Panel {
        Panel(
            kind: .table,
            title: title,
            description: description,
            unit: .count,
            width: width,
            queries: [PanelQuery(expression)],
        )
    }
}

/// The limits at which a number stops being good and starts being bad.
enum PanelBounds {
    /// Values of at least `good` are good, and values below `bad` are bad.
    case high(bad: Double, good: Double)
    /// Values below `good` are good, and values of at least `bad` are bad.
    case low(good: Double, bad: Double)
}

/// A row of a dashboard: panels with a common title.
struct PanelRow {
    let title: String
    let panels: [Panel]

    init(_ title: String, _ panels: Panel...) {
        self.title = title
        self.panels = panels
    }
}

/// A dashboard.
struct Dashboard {
    /// A variable in addition to data source, job and instance.
    struct Variable {
        let label: String
        /// The family whose label values can be selected.
        let family: Family
    }

    /// The identifier. For `overview` the file is `apus-overview.json`.
    let name: String
    let title: String
    let description: String
    var variables: [Variable] = []
    let rows: [PanelRow]

    var uid: String { "apus-\(self.name)" }

    /// All dashboards, from the most general to the most specific.
    static let all: [Dashboard] = [.overview, .provider, .streams, .registration, .runtime, .loadTest]
}
