package import ApusCore
package import ApusMetrics
package import ApusService

/// All metric families of all services, as `apus metrics list` shows them.
package struct MetricList: Sendable {
    /// A metric family and the services that export it.
    package struct Entry: Sendable, Hashable {
        /// The declaration, with the label values that are known at build time.
        package let definition: MetricDefinition
        /// The services that export the family.
        package let services: [ServiceName]

        /// The number of samples in the exposition of one service. Label values that come from the configuration are
        /// not counted, except those that exist without any configuration.
        package var seriesCount: Int { self.definition.seriesCount }
    }

    /// The families, sorted by name.
    package let entries: [Entry]

    /// The catalogue of all services.
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

    /// The number of samples that one service exports at its start.
    package static func seriesCount(of service: ServiceName) -> Int {
        Catalogues.definitions(of: service).reduce(0) { $0 + $1.seriesCount }
    }

    /// The catalogue as readable text: name, type, labels, services and help text of each family.
    package var rows: [[String]] {
        self.entries.map { entry in
            [
                entry.definition.name, entry.definition.kind.rawValue,
                entry.definition.labelNames.joined(separator: ","),
                entry.services.map(\.rawValue).joined(separator: ","), entry.definition.help,
            ]
        }
    }

    /// The catalogue as JSON.
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
    /// Joins the declarations of a family by two services. They differ only in the streams that the services read.
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
