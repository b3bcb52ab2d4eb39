package import ApusCore
package import ApusMetrics

/// The metrics of registration.
package struct RegistrationMetrics: MetricSet {
    package let requests = CounterBy2<HTTPOperation, HTTPCode>(
        "apus_http_requests_total",
        "HTTP requests answered, by route and status."
    )
    /// In nanoseconds.
    package let requestDuration = HistogramBy<HTTPRouteGroup>(
        "apus_http_request_duration_seconds",
        "Time from the head of an HTTP request to its answer.",
        buckets: .httpServer
    )
    package let requestsInFlight = Gauge("apus_http_requests_inflight", "HTTP requests being answered.")
    package let connections = Gauge("apus_http_connections", "Open HTTP connections.")
    package let connectionsCut = Counter(
        "apus_http_connections_cut_total",
        "HTTP connections closed because a request took too long to arrive or was far too large."
    )
    package let changes = CounterBy2<Provider, DeviceChange>(
        "apus_registration_changes_total",
        "What became of devices, by what asked for it.",
        by: .all,
        .only(DeviceChange.possible)
    )
    package let devices = GaugeBy<Provider>(
        "apus_registration_devices",
        "Devices in the store, of all apps; counted once a minute. The same number on every replica.",
        startsAbsent: true
    )
    package let authenticationFailures = CounterBy<AuthenticationCause>(
        "apus_registration_auth_failures_total",
        "Requests refused for their credentials."
    )
    package let rejected = CounterBy<RejectionCause>(
        "apus_registration_rejected_total",
        "Requests and commands refused for what they ask."
    )
    package let groupsLost = Counter(
        "apus_registration_groups_lost_total",
        "Streams or consumer groups that vanished and were made again."
    )
    package let entriesVanished = Counter(
        "apus_registration_entries_vanished_total",
        "Stream entries that vanished before they were acknowledged."
    )

    package let upkeepDevices = Counter(
        "apus_registration_janitor_devices_total",
        "Devices that the janitor looked at."
    )
    package let upkeepRepairs = CounterBy<UpkeepRepair>(
        "apus_registration_janitor_repairs_total",
        "What the janitor put right in the device store."
    )
    package let topicsForgotten = Counter(
        "apus_registration_topics_forgotten_total",
        "Topics that were forgotten because no device had been in them for days."
    )

    /// Declares all of them.
    package init() {}
}

/// What the janitor puts right.
package enum UpkeepRepair: Int, ClosedMetricLabel, Hashable {
    /// A posting or an id that was not as its record says. The functions leave none: look for a cause.
    case record
    /// A token or user that did not lead to its device.
    case hint
    /// A token whose claim was never confirmed, or that led to a device that has another: what a crash leaves.
    case token
    /// A device among those of a user whose it is not: what a crash leaves.
    case user

    /// `kind`.
    package static let labelNames = ["kind"]
}

/// The status codes that are answered on purpose.
package enum HTTPCode: Int, ClosedMetricLabel, Hashable {
    /// 200, 201, 202, 204.
    case successful
    /// 304.
    case notModified
    /// 400.
    case badRequest
    /// 401.
    case unauthorized
    /// 403.
    case forbidden
    /// 404.
    case notFound
    /// 405.
    case methodNotAllowed
    /// 409.
    case conflict
    /// 412.
    case preconditionFailed
    /// 413.
    case contentTooLarge
    /// 415.
    case unsupportedMediaType
    /// 422.
    case unprocessable
    /// 429.
    case tooManyRequests
    /// 500.
    case internalError
    /// 503.
    case unavailable

    /// `code`.
    package static let labelNames = ["code"]

    /// The digits, or `2xx`.
    package var labelValues: [String] {
        switch self {
        case .successful: ["2xx"]
        case .notModified: ["304"]
        case .badRequest: ["400"]
        case .unauthorized: ["401"]
        case .forbidden: ["403"]
        case .notFound: ["404"]
        case .methodNotAllowed: ["405"]
        case .conflict: ["409"]
        case .preconditionFailed: ["412"]
        case .contentTooLarge: ["413"]
        case .unsupportedMediaType: ["415"]
        case .unprocessable: ["422"]
        case .tooManyRequests: ["429"]
        case .internalError: ["500"]
        case .unavailable: ["503"]
        }
    }
}

/// What became of a device, and what asked for it.
package struct DeviceChange: ClosedMetricLabel, Hashable {
    /// What became of it.
    package enum Change: String, CaseIterable, Sendable {
        /// It is new.
        case created
        /// Something but its token is new.
        case updated
        /// All is as it was.
        case unchanged
        /// It has another token, provider or environment.
        case tokenReplaced = "token_replaced"
        /// It was forgotten.
        case deleted
        /// It was registered after the time for which this was meant.
        case ignored
        /// It was forgotten because nobody had registered it for too long.
        case expired
    }

    /// What asked for it.
    package enum Source: String, CaseIterable, Sendable {
        /// A request.
        case http
        /// The register stream.
        case stream
        /// Upkeep.
        case janitor
    }

    /// What became of it.
    package let change: Change
    /// What asked for it.
    package let source: Source

    /// `change` and `source`.
    package static let labelNames = ["change", "source"]
    /// Every pair.
    package static let allCases = Change.allCases.flatMap { change in
        Source.allCases.map { DeviceChange(change: change, source: $0) }
    }

    /// The pairs that occur: the janitor does one thing, which nobody else does.
    package static let possible = Self.allCases.filter { ($0.change == .expired) == ($0.source == .janitor) }

    /// From 0.
    package var labelIndex: Int {
        let change =
            switch self.change {
            case .created: 0
            case .updated: 1
            case .unchanged: 2
            case .tokenReplaced: 3
            case .deleted: 4
            case .ignored: 5
            case .expired: 6
            }
        let source =
            switch self.source {
            case .http: 0
            case .stream: 1
            case .janitor: 2
            }
        return change * 3 + source
    }

    /// Both.
    package var labelValues: [String] { [self.change.rawValue, self.source.rawValue] }
}

/// Why credentials were not good enough. A closed set for metrics; the asker is told less.
package enum AuthenticationCause: Int, ClosedMetricLabel, Hashable {
    /// There are none.
    case missing
    /// Not a bearer token, or not one that can be read.
    case malformed
    /// No key of the app, and no token of its identity provider.
    case key
    /// A token signed by another algorithm than the app's.
    case algorithm
    /// A token with a wrong signature.
    case signature
    /// A token that is over, or says no end.
    case expired
    /// A token that is not valid yet.
    case notYetValid
    /// A token for somebody else.
    case audience
    /// A token by somebody else.
    case issuer
    /// A token without a user.
    case subject
    /// There is no such app.
    case unknownApp
    /// A key that is for something else.
    case role
    /// Another user's device, or another user.
    case owner

    /// `cause`.
    package static let labelNames = ["cause"]
}

/// Why a request or command was refused although its sender may ask.
package enum RejectionCause: Int, ClosedMetricLabel, Hashable {
    /// Not well formed.
    case malformed
    /// Something in it breaks a rule.
    case validation
    /// Too large.
    case limit
    /// The device is not in the state that was made a condition.
    case precondition
    /// Another name with the same digest is there first, or another send has the same id.
    case conflict
    /// More in a time than the app or the client may.
    case rate

    /// `cause`.
    package static let labelNames = ["cause"]
}
