/// How far a plan has come: exact, small, and the same after a failover, since it counts what the data decides.
///
/// As text: "list:<index>" for targets that are lists, "scan:<route>:<partition>:<chunk>:<ordinal>" for audiences, empty at the start.
enum PlanCursor: Hashable, Sendable {
    /// The next index of a list of addresses, devices or users.
    case list(index: Int)
    /// The next ordinal of a scan. `partition` counts partitions visited, not their numbers.
    case scan(route: Int, partition: Int, chunk: Int, ordinal: Int)

    /// From its text; nil when it is none.
    init?(text: String, isList: Bool) {
        if text.isEmpty {
            self = isList ? .list(index: 0) : .scan(route: 0, partition: 0, chunk: 0, ordinal: 0)
            return
        }
        let parts = text.split(separator: ":")
        let numbers = parts.dropFirst().compactMap { Int($0) }
        guard numbers.count == parts.count - 1, numbers.allSatisfy({ $0 >= 0 }) else { return nil }
        switch (parts.first, numbers.count, isList) {
        case ("list", 1, true): self = .list(index: numbers[0])
        case ("scan", 4, false):
            self = .scan(route: numbers[0], partition: numbers[1], chunk: numbers[2], ordinal: numbers[3])
        default: return nil
        }
    }

    /// The text.
    var text: String {
        switch self {
        case .list(let index): "list:\(index)"
        case .scan(let route, let partition, let chunk, let ordinal): "scan:\(route):\(partition):\(chunk):\(ordinal)"
        }
    }
}
