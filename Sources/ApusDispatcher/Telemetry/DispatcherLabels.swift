package import ApusCore
internal import ApusMetrics
package import ApusProviders

/// The result of a command's intake.
package enum CommandResult: Int, ClosedMetricLabel, Hashable {
    /// The command was accepted.
    case accepted
    /// Its key already names the same send.
    case duplicate
    /// It breaks a rule.
    case invalid
    /// Its key already names another send.
    case conflict
    /// It has expired.
    case expired
    /// It is a dry run.
    case dryRun

    /// The label is `result`.
    package static let labelNames = ["result"]
}

/// A provider and a recipient's outcome, joined into one label for metrics that have a further label.
package struct ProviderOutcome: ClosedMetricLabel, Hashable {
    /// The provider.
    package let provider: Provider
    /// The outcome of the recipient.
    package let outcome: Outcome

    /// Creates a pair.
    package init(_ provider: Provider, _ outcome: Outcome) {
        self.provider = provider
        self.outcome = outcome
    }

    /// The labels are `provider` and `outcome`.
    package static let labelNames = Provider.labelNames + Outcome.labelNames
    /// Every pair.
    package static var allCases: [ProviderOutcome] {
        Provider.allCases.flatMap { provider in Outcome.allCases.map { ProviderOutcome(provider, $0) } }
    }
    /// Every pair with a final outcome.
    package static var final: [ProviderOutcome] { Self.allCases.filter { $0.outcome != .open } }

    /// The number of pairs of a provider and an outcome.
    package static let labelCapacity = Provider.labelCapacity * Outcome.allCases.count

    private static let outcomeCount = Outcome.allCases.count

    /// The index of the pair, from 0.
    package var labelIndex: Int { self.provider.labelIndex * Self.outcomeCount + self.outcome.labelIndex }
    /// The provider's and the outcome's values.
    package var labelValues: [String] { self.provider.labelValues + self.outcome.labelValues }
}

/// A provider and a lane, joined into one label for histograms.
package struct ProviderLane: ClosedMetricLabel, Hashable {
    /// The provider.
    package let provider: Provider
    /// The lane.
    package let lane: Lane

    /// Creates a pair.
    package init(_ provider: Provider, _ lane: Lane) {
        self.provider = provider
        self.lane = lane
    }

    /// The labels are `provider` and `lane`.
    package static let labelNames = Provider.labelNames + Lane.labelNames
    /// Every pair.
    package static var allCases: [ProviderLane] {
        Provider.allCases.flatMap { provider in Lane.allCases.map { ProviderLane(provider, $0) } }
    }

    /// The number of pairs.
    package static let labelCapacity = Provider.labelCapacity * Self.laneCount

    private static let laneCount = Lane.allCases.count

    /// The index of the pair, from 0.
    package var labelIndex: Int { self.provider.labelIndex * Self.laneCount + self.lane.labelIndex }
    /// The provider's and the lane's values.
    package var labelValues: [String] { self.provider.labelValues + self.lane.labelValues }
}

/// The status of a provider's answer, as dashboards group it.
package enum AnswerCode: Int, ClosedMetricLabel, Hashable {
    case ok, badRequest, forbidden, notFound, wrongMethod, gone, tooLarge, tooManyRequests, otherClient, internalError,
        unavailable, otherServer, none

    /// The label is `code`.
    package static let labelNames = ["code"]

    /// The status, its class, or `error` when there was no answer.
    package var labelValues: [String] {
        switch self {
        case .ok: ["2xx"]
        case .badRequest: ["400"]
        case .forbidden: ["403"]
        case .notFound: ["404"]
        case .wrongMethod: ["405"]
        case .gone: ["410"]
        case .tooLarge: ["413"]
        case .tooManyRequests: ["429"]
        case .otherClient: ["4xx"]
        case .internalError: ["500"]
        case .unavailable: ["503"]
        case .otherServer: ["5xx"]
        case .none: ["error"]
        }
    }

    /// Classifies an HTTP status; 0 means that there was no answer.
    package init(status: Int) {
        switch status {
        case 200..<300: self = .ok
        case 400: self = .badRequest
        case 403: self = .forbidden
        case 404: self = .notFound
        case 405: self = .wrongMethod
        case 410: self = .gone
        case 413: self = .tooLarge
        case 429: self = .tooManyRequests
        case 500: self = .internalError
        case 503: self = .unavailable
        case 300..<500: self = .otherClient
        case 500...: self = .otherServer
        default: self = .none
        }
    }
}

/// The result of an attempt to connect.
package enum ConnectionAttempt: Int, ClosedMetricLabel, Hashable {
    /// The handshake was finished.
    case ok
    /// The name has no address.
    case dns
    /// No TCP connection was made.
    case tcp
    /// The TLS handshake failed, or the connection ended after it before it had answered anything; then `ok` counts, too.
    case tls
    /// The peer agrees to no protocol that we offer.
    case alpn
    /// The attempt took too long.
    case timeout

    /// The label is `outcome`.
    package static let labelNames = ["outcome"]

    /// Creates the result of a failed attempt.
    init(_ failure: ConnectFailure) {
        self =
            switch failure {
            case .dns: .dns
            case .tcp: .tcp
            case .tls: .tls
            case .alpn: .alpn
            case .timeout: .timeout
            }
    }
}

/// The state of a provider connection.
package enum ConnectionState: Int, ClosedMetricLabel, Hashable {
    /// It is being made.
    case connecting
    /// It takes requests.
    case open
    /// It takes no further requests and waits for the answers that are due.
    case draining
    /// It is missing, and the next attempt waits for its backoff.
    case backoff

    /// The label is `state`.
    package static let labelNames = ["state"]
}

/// The reason why a route sends nothing although recipients wait.
package enum ThrottleCause: Int, ClosedMetricLabel, Hashable {
    /// The rate is used up.
    case rateLimit
    /// Too many recipients are in flight or not yet durable.
    case window
    /// The provider has asked the whole route to wait.
    case retryAfter
    /// The route is stopped.
    case paused
    /// The circuit is open, because the provider fails.
    case circuit
    /// Redis has not answered for too long.
    case redis

    /// The label is `cause`.
    package static let labelNames = ["cause"]
}

/// The state of a route's circuit.
package enum CircuitLabel: Int, ClosedMetricLabel, Hashable {
    /// Everything is sent.
    case closed
    /// Nothing is sent.
    case open
    /// A few requests are sent as probes.
    case halfOpen

    /// The label is `state`.
    package static let labelNames = ["state"]
}

/// The result of a changed credential.
package enum ReloadLabel: Int, ClosedMetricLabel, Hashable {
    /// It is in use.
    case taken
    /// The provider does not accept it.
    case refused
    /// The provider could not be asked.
    case unanswered
    /// Its file contains no usable key or account.
    case unusable

    /// The label is `result`.
    package static let labelNames = ["result"]
}

extension CredentialKind: ClosedMetricLabel {
    /// The label is `kind`.
    package static let labelNames = ["kind"]
}

/// The direction of bytes.
package enum ByteDirection: Int, ClosedMetricLabel, Hashable {
    /// They go to the provider.
    case sent
    /// They come from the provider.
    case received

    /// The label is `direction`.
    package static let labelNames = ["direction"]
}

/// The result of making a provider token.
package enum TokenMint: Int, ClosedMetricLabel, Hashable {
    /// The token was signed or granted.
    case ok
    /// No token was made.
    case failed

    /// The label is `outcome`.
    package static let labelNames = ["outcome"]
}

extension GoAwayCode: ClosedMetricLabel {
    /// The label is `code`.
    package static let labelNames = ["code"]
}

extension OriginStanding: ClosedMetricLabel {
    /// The label is `state`.
    package static let labelNames = ["state"]
}

/// The stages of a send or work unit, in their order.
package enum DispatchStage: Int, ClosedMetricLabel, Hashable {
    /// The context is made: the command is decoded, and rendered for each route and variant.
    case render
    /// The recipients are looked up in the store.
    case resolve
    /// The recipients wait for the rate, the circuit, the window or a free stream of a connection.
    case queue
    /// The time from the first request to the last answer.
    case send
    /// The outcomes are written to Redis.
    case write

    /// The label is `stage`.
    package static let labelNames = ["stage"]
}
