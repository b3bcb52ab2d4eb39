internal import ApusCore
internal import ApusMetrics

extension Dashboard {
    /// Encodes dashboards in Grafana's classic model, schema version 39, which Grafana 10.4 and later can import.
    ///
    /// Source: https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
    var json: JSONValue {
        [
            "uid": .string(self.uid),
            "title": .string("Apus / \(self.title)"),
            "description": .string(self.description),
            "tags": ["apus"],
            "schemaVersion": 39,
            "version": 1,
            "editable": false,
            "graphTooltip": 1,
            "timezone": "utc",
            "refresh": "10s",
            "time": ["from": "now-1h", "to": "now"],
            "annotations": ["list": [Self.restarts]],
            "templating": ["list": .array(self.templating)],
            "panels": .array(self.panels),
        ]
    }

    /// The data source that is selected in the dashboard.
    static let source: JSONValue = ["type": "prometheus", "uid": "${datasource}"]

    private static var restarts: JSONValue {
        let start = Catalogues.every[common: \.process.startTime].shown()
        return [
            "name": "Restarts", "datasource": Self.source, "enable": true, "iconColor": "orange",
            "expr": .string("changes(\(start)[$__rate_interval]) > 0"), "titleFormat": "{{job}} restarted",
        ]
    }

    private var templating: [JSONValue] {
        let build = Catalogues.every.buildInformation
        var list: [JSONValue] = [
            [
                "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0,
                "refresh": 1, "regex": "",
            ],
            Self.variable("job", "label_values(\(build.name), job)"),
            Self.variable("instance", "label_values(\(build.name){job=~\"$job\"}, instance)"),
        ]
        for variable in self.variables {
            let series = variable.family.shown()
            list.append(Self.variable(variable.label, "label_values(\(series), \(variable.label))"))
        }
        return list
    }

    private static func variable(_ name: String, _ query: String) -> JSONValue {
        [
            "name": .string(name), "label": .string(name), "type": "query", "datasource": Self.source,
            "query": .string(query), "definition": .string(query), "refresh": 2, "multi": true, "includeAll": true,
            "allValue": ".+", "sort": 1, "current": ["text": "All", "value": "$__all"],
        ]
    }

    /// Places the rows below each other, and the panels of a row from left to right. A panel that does not fit starts a
    /// new line.
    private var panels: [JSONValue] {
        var panels: [JSONValue] = []
        var y = 0
        for row in self.rows {
            panels.append(
                [
                    "id": .integer(panels.count + 1), "type": "row", "title": .string(row.title), "collapsed": false,
                    "gridPos": Self.place(x: 0, y: y, width: 24, height: 1), "panels": [],
                ]
            )
            y += 1
            var x = 0
            var height = 0
            for panel in row.panels {
                if x + panel.width > 24 {
                    y += height
                    (x, height) = (0, 0)
                }
                let place = Self.place(x: x, y: y, width: panel.width, height: panel.height)
                panels.append(panel.json(id: panels.count + 1, place: place))
                x += panel.width
                height = max(height, panel.height)
            }
            y += height
        }
        return panels
    }

    private static func place(x: Int, y: Int, width: Int, height: Int) -> JSONValue {
        ["h": .integer(height), "w": .integer(width), "x": .integer(x), "y": .integer(y)]
    }
}

extension ServiceCatalogue {
    /// The family `apus_build_info`, which every process exports. The variables of the dashboards read it.
    var buildInformation: Family {
        guard let definition = self.definitions.first(where: { $0.kind == .info }) else {
            preconditionFailure("a service without build information")
        }
        return Family(definition)
    }
}

extension Panel {
    fileprivate func json(id: Int, place: JSONValue) -> JSONValue {
        [
            "id": .integer(id), "type": .string(self.type), "title": .string(self.title),
            "description": .string(self.description), "gridPos": place, "datasource": Dashboard.source,
            "fieldConfig": ["defaults": .object(self.defaults), "overrides": []], "options": self.options,
            "targets": .array(self.queries.enumerated().map { self.target($1, number: $0) }),
        ]
    }

    private var type: String {
        switch self.kind {
        case .stat: "stat"
        case .lines: "timeseries"
        case .heatmap: "heatmap"
        case .table: "table"
        }
    }

    private func target(_ query: PanelQuery, number: Int) -> JSONValue {
        var target: JSONObject = [
            "refId": .string(String(UnicodeScalar(UInt8(0x41 + number)))), "datasource": Dashboard.source,
            "expr": .string(query.expression), "legendFormat": .string(query.legend),
        ]
        switch self.kind {
        case .heatmap: target["format"] = "heatmap"
        case .table:
            target["format"] = "table"
            target["instant"] = true
        case .stat, .lines: break
        }
        return .object(target)
    }

    private var defaults: JSONObject {
        var defaults: JSONObject = ["unit": .string(self.unit.rawValue)]
        switch self.kind {
        case .stat(let bounds):
            if self.unit == .share { defaults["decimals"] = 3 }
            defaults["color"] = ["mode": "thresholds"]
            defaults["thresholds"] = ["mode": "absolute", "steps": .array(Self.steps(bounds))]
        case .lines(let isStacked):
            defaults["min"] = 0
            defaults["custom"] = [
                "fillOpacity": isStacked ? 40 : 10, "lineWidth": 1, "showPoints": "never",
                "stacking": ["mode": isStacked ? "normal" : "none", "group": "A"],
            ]
        case .heatmap, .table: break
        }
        return defaults
    }

    private static func steps(_ bounds: PanelBounds?) -> [JSONValue] {
        func step(_ color: String, _ value: Double?) -> JSONValue {
            ["color": .string(color), "value": value.flatMap { JSONNumber($0) }.map { .number($0) } ?? .null]
        }
        switch bounds {
        case nil: return [step("text", nil)]
        case .high(let bad, let good): return [step("red", nil), step("orange", bad), step("green", good)]
        case .low(let good, let bad): return [step("green", nil), step("orange", good), step("red", bad)]
        }
    }

    private var options: JSONValue {
        switch self.kind {
        case .stat:
            [
                "reduceOptions": ["calcs": ["lastNotNull"], "fields": "", "values": false], "graphMode": "area",
                "colorMode": "value", "textMode": "auto",
            ]
        case .lines:
            [
                "legend": ["displayMode": "list", "placement": "bottom", "showLegend": true],
                "tooltip": ["mode": "multi", "sort": "desc"],
            ]
        case .heatmap:
            [
                "calculate": false, "yAxis": ["unit": .string(self.unit.rawValue)],
                "color": ["mode": "scheme", "scheme": "Spectral", "steps": 64], "cellGap": 1,
                "tooltip": ["show": true, "yHistogram": false],
            ]
        case .table: ["showHeader": true, "cellHeight": "sm"]
        }
    }
}
