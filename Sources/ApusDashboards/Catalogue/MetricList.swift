package import ApusCore
package import ApusMetrics
package import ApusService

/// Every family of every service: what `apus metrics list` shows.
package struct MetricList: Sendable {
    /// A family, and who exports it.
    package struct Entry: Sendable, Hashable {
        /// The declaration, with the values that are known when the program is built.
        package let definition: MetricDefinition
        /// The services.
        package let services: [ServiceName]

        /// Samples of one service's exposition; of labels from the configuration only what is there without one counts.
        package var seriesCount: Int { self.definition.seriesCount }
    }

    /// By name.
    package let entries: [Entry]

    /// Of all services.
    package init() {
        var entries: [String: Entry] = [:]
        for service in ServiceName.allCases {
            for definition in Catalogues.definitions(of: service) {
                let before = entries[definition.name]
                entries[definition.name] = Entry(
                    definition: before.map { $0.definition.united(with: definition) } ?? definition,
                    services: (before?.services ?? []) + [service],
                )
            }
        }
        self.entries = entries.values.sorted { $0.definition.name < $1.definition.name }
    }

    /// The samples of one service at its start.
    package static func seriesCount(of service: ServiceName) -> Int {
        Catalogues.definitions(of: service).reduce(0) { $0 + $1.seriesCount }
    }

    /// For people: name, type, labels, services, meaning.
    package var rows: [[String]] {
        self.entries.map { entry in
            [
                entry.definition.name, entry.definition.kind.rawValue,
                entry.definition.labelNames.joined(separator: ","),
                entry.services.map(\.rawValue).joined(separator: ","), entry.definition.help,
            ]
        }
    }

    /// For programs.
    package var json: JSONObject {
        ["metrics": .array(self.entries.map { .object($0.json) })]
    }
}

extension MetricList.Entry {
    fileprivate var json: JSONObject {
        var labels = JSONObject()
        for name in self.definition.labelNames {
            labels[name] = .array((self.definition.labelValues[name] ?? []).map { .string($0) })
        }
        var json: JSONObject = [
            "name": .string(self.definition.name), "type": .string(self.definition.kind.rawValue),
            "help": .string(self.definition.help), "labels": .object(labels),
        ]
        if let unit = self.definition.unit { json["unit"] = .string(unit) }
        if !self.definition.bounds.isEmpty { json["buckets"] = .array(self.definition.bounds.map { .string($0) }) }
        json["services"] = .array(self.services.map { .string($0.rawValue) })
        return json
    }
}

extension MetricDefinition {
    /// Two services' declarations of the same family differ in the streams that they read.
    fileprivate func united(with other: MetricDefinition) -> MetricDefinition {
        var values = self.labelValues
        for (name, more) in other.labelValues {
            values[name] = (values[name] ?? []) + more.filter { !(values[name] ?? []).contains($0) }
        }
        return MetricDefinition(
            name: self.name,
            kind: self.kind,
            help: self.help,
            labelNames: self.labelNames,
            labelValues: values,
            bounds: self.bounds,
            seriesCount: max(self.seriesCount, other.seriesCount),
        )
    }
}
