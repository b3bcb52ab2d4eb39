/// The unit of a panel, by Grafana's name.
enum PanelUnit: String {
    case perSecond = "ops"
    case seconds = "s"
    case share = "percentunit"
    case count = "short"
    case bytes = "bytes"
    case bytesPerSecond = "Bps"
}

/// One line, or one group of lines, of a panel.
struct PanelQuery {
    let expression: String
    /// `{{label}}` stands for a label's value.
    let legend: String

    init(_ expression: String, _ legend: String = "") {
        self.expression = expression
        self.legend = legend
    }
}

/// A panel of a dashboard: a question that somebody asks, and the queries that answer it.
struct Panel {
    /// How it is drawn.
    enum Kind {
        /// One number for each series; red, orange, green by the bounds given, or the other way round.
        case stat(PanelBounds?)
        /// Lines over time.
        case lines(isStacked: Bool)
        /// Buckets of a histogram over time.
        case heatmap
        /// The labels of the series of this moment, one row each.
        case table
    }

    let kind: Kind
    let title: String
    let description: String
    let unit: PanelUnit
    /// In columns of 24.
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

    /// Numbers side by side, over the whole width unless another is given.
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

/// Where a number stops being good, and where it starts being bad.
enum PanelBounds {
    /// Good from `good` on, bad below `bad`.
    case high(bad: Double, good: Double)
    /// Good below `good`, bad from `bad` on.
    case low(good: Double, bad: Double)
}

/// Panels under one title.
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
    /// A choice beside data source, job and instance.
    struct Variable {
        let label: String
        /// Where its values are looked up.
        let family: Family
    }

    /// `overview`: the file is `apus-overview.json`.
    let name: String
    let title: String
    let description: String
    var variables: [Variable] = []
    let rows: [PanelRow]

    var uid: String { "apus-\(self.name)" }

    /// All of them, in the order of a look from afar to a look from near.
    static let all: [Dashboard] = [.overview, .provider, .streams, .registration, .runtime, .loadTest]
}
