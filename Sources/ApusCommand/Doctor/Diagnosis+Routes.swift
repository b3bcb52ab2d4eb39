internal import ApusStreams

extension Diagnosis {
    /// Returns one finding for each reason for which recipients on a route wait, or one that none waits. A route that was removed on
    /// purpose is no concern, and nothing is known of one that cannot be reached. While the list of routes does not answer, a route may have
    /// been removed unless a dispatcher tells of its provider. Pure.
    package static func routes(_ rows: [RouteControlReport.Row]) -> [Finding] {
        let isListSilent = rows.contains { !$0.isConfigurationKnown }
        let rows = rows.filter {
            !$0.isRemoved && $0.isReachable && ($0.isConfigurationKnown || $0.failure != nil)
        }
        let held = rows.flatMap { row in
            row.obstacles.map { Finding(Self.verdict(on: row), .routes, row.route, $0.cause, cure: $0.cure) }
        }
        if isListSilent { return [Finding(.warn, .routes, Self.listIsSilent)] + held }
        guard held.isEmpty, !rows.isEmpty else { return held }
        return [
            Finding(.ok, .routes, rows.count == 1 ? "1 route, not held back" : "\(rows.count) routes, none held back")
        ]
    }

    private static let listIsSilent =
        "the server that has their list does not answer: which of them are still configured is not known"

    /// Returns the severity of a route that is held back: somebody wanted it, or only a part of it waits.
    private static func verdict(on row: RouteControlReport.Row) -> Verdict {
        if row.unconfiguredMilliseconds != nil { return .warn }
        if case .byOperator = row.state.stop { return .warn }
        let stands = row.state.stop != nil || row.failure != nil || row.state.connectionFault != nil
        return stands ? .fail : .warn
    }
}
