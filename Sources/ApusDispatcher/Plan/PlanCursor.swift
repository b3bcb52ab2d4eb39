/// The position up to which a send's recipients have been planned.
///
/// It is exact, small, and the same after a failover, because it counts only what the data determines. Its text is "list:<index>" for lists,
/// that of a ``ScanPosition`` for audiences, and empty at the start.
enum PlanCursor: Hashable, Sendable {
    /// The next index of a list of addresses, devices or users.
    case list(index: Int)
    /// The position of a scan.
    case scan(ScanPosition)

    /// Parses a cursor; nil if the text is not one.
    init?(text: String, isList: Bool) {
        if text.isEmpty {
            self = isList ? .list(index: 0) : .scan(ScanPosition())
        } else if isList {
            guard text.hasPrefix("list:"), let index = Int(text.dropFirst(5)), index >= 0 else { return nil }
            self = .list(index: index)
        } else {
            guard let position = ScanPosition(text: text) else { return nil }
            self = .scan(position)
        }
    }

    /// The cursor as text.
    var text: String {
        switch self {
        case .list(let index): "list:\(index)"
        case .scan(let position): position.text
        }
    }

    /// True for the cursor of a plan that has not begun.
    var isBeginning: Bool { self == .list(index: 0) || self == .scan(ScanPosition()) }
}
