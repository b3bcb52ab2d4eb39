internal import ApusCore

/// The ledger's counters.
public struct LedgerSummary: Hashable, Sendable {
    /// Entries.
    public var entries = 0
    /// Requests by status; 0: not looked at.
    public var statuses: [FaultRoute: [Int: UInt64]] = [:]
    /// Requests that a fault struck, by its name; of answers by status and word, too: "reason:BadDeviceToken", "answer:502".
    public var faults: [String: UInt64] = [:]
    /// Connections that were opened.
    public var connections: UInt64 = 0
    /// GOAWAYs that were said.
    public var goAways: UInt64 = 0
    /// What the lots for faults are drawn from; nil: nobody said.
    public var seed: UInt64?

    /// Nothing counted.
    public init() {}

    /// Requests on a route that got that status.
    public func count(_ route: FaultRoute, status: Int) -> Int { Int(self.statuses[route]?[status] ?? 0) }

    /// Requests on a route.
    public func count(_ route: FaultRoute) -> Int { Int(self.statuses[route]?.values.reduce(0, +) ?? 0) }

    /// As one JSON object.
    package var json: [UInt8] {
        var object: JSONObject = ["entries": .integer(self.entries)]
        for route in FaultRoute.allCases {
            var counts = JSONObject()
            for (status, count) in (self.statuses[route] ?? [:]).sorted(by: { $0.key < $1.key }) {
                counts[status == 0 ? "refused" : String(status)] = .integer(count)
            }
            object[route.name] = .object(counts)
        }
        var faults = JSONObject()
        for (name, count) in self.faults.sorted(by: { $0.key < $1.key }) { faults[name] = .integer(count) }
        object["faults"] = .object(faults)
        object["connections"] = .integer(self.connections)
        object["go_aways"] = .integer(self.goAways)
        if let seed { object["seed"] = .integer(seed) }
        return JSONValue.object(object).bytes
    }
}
