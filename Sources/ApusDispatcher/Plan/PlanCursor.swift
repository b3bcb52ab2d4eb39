/// The position up to which a send's recipients have been planned.
///
/// It is exact, small, and the same after a failover, because it counts only what the data determines. Its text is
/// "list:<index>" for lists, "scan:<route>:<partition>:<chunk>:<ordinal>" for audiences, and empty at the start.
enum PlanCursor: Hashable, Sendable {
    /// The next index of a list of addresses, devices or users.
    case list(index: Int)
    /// The next ordinal of a scan. `partition` is the number of partitions visited, not the number of the partition.
    case scan(route: Int, partition: Int, chunk: Int, ordinal: Int)

    /// Parses a cursor; nil if the text is not one.
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

    /// The cursor as text.
    var text: String {
        switch self {
        case .list(let index): "list:\(index)"
        case .scan(let route, let partition, let chunk, let ordinal): "scan:\(route):\(partition):\(chunk):\(ordinal)"
        }
    }
}
