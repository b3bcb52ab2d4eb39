internal import ApusCore
internal import ApusMessages
package import ApusStreams

/// Shows the progress of a send in one line:
/// `[#######----] 61,204/100,000  accepted 60,911  unregistered 240  failed 53  12.4k/s  ETA 3s`.
package struct ProgressLine {
    private static let barWidth = 24

    /// Returns the line.
    ///
    /// - Parameters:
    ///   - rate: the recipients per second; nil when unknown.
    ///   - isObstructed: true when something keeps it from going on, so that no end can be estimated.
    package static func text(_ status: SendStatus, rate: Double?, isObstructed: Bool = false) -> String {
        if case .refused(let problem) = status.phase { return "refused: \(problem.code): \(problem)" }
        guard status.phase != .waiting else { return "waiting for a dispatcher" }
        var parts = ["\(Self.bar(status)) \(NumberText.grouped(status.closed))/\(NumberText.grouped(status.planned))"]
        for outcome in [Outcome.accepted, .unregistered, .failed] {
            parts.append("\(outcome.name) \(NumberText.grouped(status.total(outcome)))")
        }
        for outcome in [Outcome.rejected, .expired, .cancelled, .skipped] where status.total(outcome) > 0 {
            parts.append("\(outcome.name) \(NumberText.grouped(status.total(outcome)))")
        }
        if let rate, rate > 0 { parts.append("\(NumberText.rate(rate))/s") }
        switch status.phase {
        case .planning where isObstructed, .running where isObstructed: parts.append("waiting")
        case .scheduled: parts.append("scheduled")
        case .planning: parts.append("still finding recipients")
        case .paused: parts.append("paused")
        case .cancelled: parts.append("cancelled")
        case .running:
            if let rate, rate > 0 {
                parts.append("ETA \(NumberText.duration(seconds: Double(status.total(.open)) / rate))")
            }
        case .done, .waiting, .refused: break
        }
        if let problem = status.problem { parts.append("\(problem.code): \(problem)") }
        return parts.joined(separator: "  ")
    }

    private static func bar(_ status: SendStatus) -> String {
        let share = status.planned == 0 ? (status.isOver ? 1 : 0) : Double(status.closed) / Double(status.planned)
        let full = max(0, min(Self.barWidth, Int(share * Double(Self.barWidth))))
        return "[" + String(repeating: "#", count: full) + String(repeating: "-", count: Self.barWidth - full) + "]"
    }
}
