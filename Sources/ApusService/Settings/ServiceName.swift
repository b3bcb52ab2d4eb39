public import ApusMetrics

/// The three services.
public enum ServiceName: String, CaseIterable, Sendable, Hashable {
    /// Fills the device store.
    case registration
    /// Sends.
    case dispatcher
    /// Turns outcomes into effects.
    case feedback

    /// The section of the configuration.
    public var section: String { self.rawValue }

    /// The program's name, in logs and metrics too.
    public var programName: String { "apus-\(self.rawValue)" }

    /// The port of the admin endpoints unless configured.
    public var adminPort: Int {
        switch self {
        case .registration: 9_101
        case .dispatcher: 9_102
        case .feedback: 9_103
        }
    }

    /// The streams that the service reads.
    public var streams: [StreamLabel] {
        switch self {
        case .registration: [.register]
        case .dispatcher: [.inExpress, .inBulk, .plan, .work, .due]
        case .feedback: [.outcomes, .events]
        }
    }
}
