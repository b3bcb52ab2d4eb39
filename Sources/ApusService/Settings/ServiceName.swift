public import ApusMetrics

/// The three services.
public enum ServiceName: String, CaseIterable, Sendable, Hashable {
    /// Maintains the device store.
    case registration
    /// Sends notifications.
    case dispatcher
    /// Applies the outcomes of sends to the device store.
    case feedback

    /// The service's section in the configuration.
    public var section: String { self.rawValue }

    /// The program's name, which logs and metrics use too.
    public var programName: String { "apus-\(self.rawValue)" }

    /// The default port of the admin endpoints.
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

    /// The streams of which the service writes dead letters: those that it reads, and the receipts that the webhook does not take.
    public var deadLetterStreams: [StreamLabel] {
        switch self {
        case .registration, .dispatcher: self.streams
        case .feedback: self.streams + [.receipts]
        }
    }
}

extension ServiceName: ClosedMetricLabel {
    /// The label `service`.
    public static let labelNames = ["service"]
    /// The index, from 0.
    public var labelIndex: Int {
        switch self {
        case .registration: 0
        case .dispatcher: 1
        case .feedback: 2
        }
    }
    /// The name in the configuration.
    public var labelValues: [String] { [self.rawValue] }
}
