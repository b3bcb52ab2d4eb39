package import ApusCore
package import ApusMetrics

/// The metrics of registration.
package struct RegistrationMetrics: MetricSet {
    package let requests = CounterBy2<HTTPOperation, HTTPCode>(
        "apus_http_requests_total",
        "HTTP requests answered, by route and status."
    )
    /// The durations in nanoseconds.
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
    package let connectionsRefused = Counter(
        "apus_http_connections_refused_total",
        "HTTP connections closed at once because their address had as many as it may."
    )
    package let memoryHeld = Gauge(
        "apus_http_held_bytes",
        "Bytes of request bodies, import lines and unread answers in memory."
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

    /// Declares all metrics.
    package init() {}
}

/// Names what the janitor repairs.
package enum UpkeepRepair: Int, ClosedMetricLabel, Hashable {
    /// A posting or an id disagreed with its record. The functions leave none, so look for a cause.
    case record
    /// A token or user did not lead to its device.
    case hint
    /// A token's claim was never confirmed, or led to a device with another token, as after a crash.
    case token
    /// A user's entry had a device of another user, as after a crash.
    case user
    /// A device was marked as suspect, and its token was not in quarantine.
    case suspicion
    /// A record was not encrypted with the current key.
    case encryption

    /// The label `kind`.
    package static let labelNames = ["kind"]
}

/// Names the status codes that are answered on purpose.
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
    /// 417.
    case expectationFailed
    /// 422.
    case unprocessable
    /// 429.
    case tooManyRequests
    /// 500.
    case internalError
    /// 503.
    case unavailable

    /// The label `code`.
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
        case .expectationFailed: ["417"]
        case .unprocessable: ["422"]
        case .tooManyRequests: ["429"]
        case .internalError: ["500"]
        case .unavailable: ["503"]
        }
    }
}

/// Names the change of a device, and its source.
package struct DeviceChange: ClosedMetricLabel, Hashable {
    /// The change of a device.
    package enum Change: String, CaseIterable, Sendable {
        /// The device is new.
        case created
        /// Something but its token changed.
        case updated
        /// Nothing changed.
        case unchanged
        /// The device has another token, provider or environment.
        case tokenReplaced = "token_replaced"
        /// The device was forgotten.
        case deleted
        /// The device was registered after the time that the command is of.
        case ignored
        /// The device was forgotten because nobody had registered it for too long.
        case expired
    }

    /// The source of a change.
    package enum Source: String, CaseIterable, Sendable {
        /// A request.
        case http
        /// The register stream.
        case stream
        /// Upkeep.
        case janitor
    }

    /// The change.
    package let change: Change
    /// The source.
    package let source: Source

    /// The labels `change` and `source`.
    package static let labelNames = ["change", "source"]
    /// Every pair of change and source.
    package static let allCases = Change.allCases.flatMap { change in
        Source.allCases.map { DeviceChange(change: change, source: $0) }
    }

    /// The pairs that occur: the janitor makes one change, which no other source makes.
    package static let possible = Self.allCases.filter { ($0.change == .expired) == ($0.source == .janitor) }

    /// The index in `allCases`, from 0.
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

    /// The values of both labels.
    package var labelValues: [String] { [self.change.rawValue, self.source.rawValue] }
}

/// Names the reason why credentials were refused, for metrics; the caller is told less.
package enum AuthenticationCause: Int, ClosedMetricLabel, Hashable {
    /// There are no credentials.
    case missing
    /// The credentials are not a bearer token, or not a readable one.
    case malformed
    /// The credentials are neither a key of the app nor a token of its identity provider.
    case key
    /// The token is signed by another algorithm than the app's.
    case algorithm
    /// The token has a wrong signature.
    case signature
    /// The token has expired, or has no expiry.
    case expired
    /// The token is not valid yet.
    case notYetValid
    /// The token is for another audience.
    case audience
    /// The token is from another issuer.
    case issuer
    /// The token has no user.
    case subject
    /// There is no such app.
    case unknownApp
    /// The key has another role.
    case role
    /// The device, or the user, belongs to another user.
    case owner
    /// The client's address has failed too often, and the credentials were not examined.
    case limited
    /// The credentials may be a key in Redis, and the keys of an app were never read.
    case keysUnread

    /// The label `cause`.
    package static let labelNames = ["cause"]
}

/// Names the reason why a request or command of a permitted caller was refused.
package enum RejectionCause: Int, ClosedMetricLabel, Hashable {
    /// It is malformed.
    case malformed
    /// Something in it breaks a rule.
    case validation
    /// It is too large.
    case limit
    /// The device is not in the state that the condition requires.
    case precondition
    /// Another name with the same digest exists already, or another send has the same id.
    case conflict
    /// It exceeds the rate of the app or the client.
    case rate
    /// The process holds as many bytes for its clients as it may.
    case memory

    /// The label `cause`.
    package static let labelNames = ["cause"]
}
