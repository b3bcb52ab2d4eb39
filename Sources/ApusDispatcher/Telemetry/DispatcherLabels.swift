package import ApusCore
internal import ApusMetrics
package import ApusProviders

/// What became of a command at intake.
package enum CommandResult: Int, ClosedMetricLabel, Hashable {
    /// Taken.
    case accepted
    /// Its key named the same send already.
    case duplicate
    /// It breaks a rule.
    case invalid
    /// Its key named another send.
    case conflict
    /// Its expiry had passed.
    case expired
    /// It asked what it would do.
    case dryRun

    /// `result`.
    package static let labelNames = ["result"]
}

/// A provider, and how a recipient of it ended: of families that a third label tells apart.
package struct ProviderOutcome: ClosedMetricLabel, Hashable {
    /// The provider.
    package let provider: Provider
    /// How the recipient ended.
    package let outcome: Outcome

    /// A pair.
    package init(_ provider: Provider, _ outcome: Outcome) {
        self.provider = provider
        self.outcome = outcome
    }

    /// `provider` and `outcome`.
    package static let labelNames = Provider.labelNames + Outcome.labelNames
    /// Every pair.
    package static var allCases: [ProviderOutcome] {
        Provider.allCases.flatMap { provider in Outcome.allCases.map { ProviderOutcome(provider, $0) } }
    }
    /// Every pair of an outcome that is final.
    package static var final: [ProviderOutcome] { Self.allCases.filter { $0.outcome != .open } }

    /// One for each place of a provider and outcome.
    package static let labelCapacity = Provider.labelCapacity * Outcome.allCases.count

    private static let outcomeCount = Outcome.allCases.count

    /// From 0.
    package var labelIndex: Int { self.provider.labelIndex * Self.outcomeCount + self.outcome.labelIndex }
    /// Both.
    package var labelValues: [String] { self.provider.labelValues + self.outcome.labelValues }
}

/// Why a provider's answer was what it was: the status class a dashboard groups by.
package enum AnswerCode: Int, ClosedMetricLabel, Hashable {
    case ok, badRequest, forbidden, notFound, wrongMethod, gone, tooLarge, tooManyRequests, otherClient, internalError,
        unavailable, otherServer, none

    /// `code`.
    package static let labelNames = ["code"]

    /// As in the metric.
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

    /// Of an HTTP status; 0: there was no answer.
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

/// How an attempt to connect ended.
package enum ConnectionAttempt: Int, ClosedMetricLabel, Hashable {
    /// With a finished handshake.
    case ok
    /// The name has no address.
    case dns
    /// Nobody takes the connection.
    case tcp
    /// The handshake failed.
    case tls
    /// The peer does not speak HTTP/2.
    case alpn
    /// It took too long.
    case timeout

    /// `outcome`.
    package static let labelNames = ["outcome"]

    /// Of an attempt that failed.
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

/// Where a connection is in its life.
package enum ConnectionState: Int, ClosedMetricLabel, Hashable {
    /// It is being made.
    case connecting
    /// Requests go out on it.
    case open
    /// It takes no more and waits for the answers that are due.
    case draining
    /// It is missing, and not tried for before a while is over.
    case backoff

    /// `state`.
    package static let labelNames = ["state"]
}

/// Why a route sends nothing though something waits.
package enum ThrottleCause: Int, ClosedMetricLabel, Hashable {
    /// The rate is used up.
    case rateLimit
    /// Too much is on the wire or not yet written down.
    case window
    /// The provider has asked everybody to wait.
    case retryAfter
    /// An operator has stopped the route.
    case paused
    /// The provider is in trouble.
    case circuit
    /// Redis has not answered for too long.
    case redis

    /// `cause`.
    package static let labelNames = ["cause"]
}

/// Where a route's circuit is.
package enum CircuitLabel: Int, ClosedMetricLabel, Hashable {
    /// Everything goes out.
    case closed
    /// Nothing goes out.
    case open
    /// A few requests are tried.
    case halfOpen

    /// `state`.
    package static let labelNames = ["state"]
}

/// What a new credential came to.
package enum ReloadLabel: Int, ClosedMetricLabel, Hashable {
    /// It is in use.
    case taken
    /// The provider does not take it.
    case refused
    /// The provider could not be asked.
    case unanswered
    /// Its file is no key or account.
    case unusable

    /// `result`.
    package static let labelNames = ["result"]
}

extension CredentialKind: ClosedMetricLabel {
    /// `kind`.
    package static let labelNames = ["kind"]
}

/// Which way bytes went.
package enum ByteDirection: Int, ClosedMetricLabel, Hashable {
    /// To the provider.
    case sent
    /// From it.
    case received

    /// `direction`.
    package static let labelNames = ["direction"]
}

/// What came of making a token that a provider is shown.
package enum TokenMint: Int, ClosedMetricLabel, Hashable {
    /// It was signed, or granted.
    case ok
    /// It was not.
    case failed

    /// `outcome`.
    package static let labelNames = ["outcome"]
}

extension GoAwayCode: ClosedMetricLabel {
    /// `code`.
    package static let labelNames = ["code"]
}

/// Where the time of a send or of a work unit goes, one after the other.
package enum DispatchStage: Int, ClosedMetricLabel, Hashable {
    /// Its context is found: the command read, written out for each route and variant.
    case render
    /// Recipients are looked up in the store.
    case resolve
    /// They wait for their turn: rate, circuit, window, room on a connection.
    case queue
    /// From the first request to the last answer.
    case send
    /// Outcomes are written to Redis.
    case write

    /// `stage`.
    package static let labelNames = ["stage"]
}
