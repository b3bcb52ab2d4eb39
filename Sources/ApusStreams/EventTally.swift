package import ApusCore
package import ApusMessages

/// What apps reported of a send's notifications, counted.
package struct EventTally: Hashable, Sendable {
    /// How often something happened, by provider; nil: unknown.
    package struct Count: Hashable, Sendable {
        /// Through whom the notification came.
        package var provider: Provider?
        /// What happened.
        package var kind: ClientEvent.Kind
        /// How often.
        package var count: UInt64
    }

    /// By provider and kind, in that order; only what happened.
    package private(set) var counts: [Count] = []

    /// Nothing was reported.
    package init() {}

    /// From the fields and values of the hash.
    init(fields: [(String, String)]) {
        for (name, value) in fields {
            let parts = name.split(separator: "/")
            guard parts.count == 2, let kind = ClientEvent.Kind.allCases.first(where: { $0.name == parts[1] }),
                let count = UInt64(value)
            else { continue }
            self.counts.append(Count(provider: Provider(name: parts[0]), kind: kind, count: count))
        }
        self.counts.sort {
            ($0.provider?.rawValue ?? 0, $0.kind.rawValue) < ($1.provider?.rawValue ?? 0, $1.kind.rawValue)
        }
    }

    /// The name of a count in the hash.
    static func field(_ event: ClientEvent) -> String {
        "\(event.provider?.name ?? "unknown")/\(event.kind.name)"
    }

    /// How often it happened, over all providers.
    package func total(_ kind: ClientEvent.Kind) -> UInt64 {
        self.counts.reduce(0) { $0 + ($1.kind == kind ? $1.count : 0) }
    }

    /// The share of the accepted that was opened; nil: nothing was accepted.
    package func openRate(accepted: UInt64) -> Double? {
        accepted == 0 ? nil : Double(self.total(.opened)) / Double(accepted)
    }

    /// As JSON: by kind, and by provider and kind.
    package var json: JSONObject {
        var json = JSONObject()
        for kind in ClientEvent.Kind.allCases where self.total(kind) > 0 {
            json[kind.name] = .integer(self.total(kind))
        }
        let providers = self.counts.map { count -> JSONValue in
            [
                "provider": count.provider.map { JSONValue.string($0.name) } ?? .null, "kind": .string(count.kind.name),
                "count": .integer(count.count),
            ]
        }
        json["by_provider"] = .array(providers)
        return json
    }
}

extension ClientEvent.Kind {
    /// The name in keys, metrics and JSON.
    package var name: String {
        switch self {
        case .received: "received"
        case .opened: "opened"
        case .dismissed: "dismissed"
        case .action: "action"
        }
    }
}
