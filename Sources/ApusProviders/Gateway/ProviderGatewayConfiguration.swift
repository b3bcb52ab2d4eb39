package import ApusCore
internal import ApusHTTP2
package import NIOCore

/// Configures the connections and requests of a route.
package struct ProviderGatewayConfiguration: Sendable {
    /// The provider.
    package var provider: Provider
    /// Interprets the provider's answers.
    package let answers: any AnswerReader
    /// The host to connect to, for which the certificate must be valid.
    package var host: String
    /// The port to connect to.
    package var port: Int
    /// The address to connect to instead of the host's own, such as a simulator's; nil for its own.
    package var connectsTo: WebAddress?
    /// Looks up the host's name when that must lead to addresses of the public internet; nil when it may lead to any.
    var names: PublicNames?
    /// Returns what looks up the names of recipients' own hosts.
    var namesOfOrigins: @Sendable (HostTrust) -> PublicNames?
    /// The sizes and times of recipients' own origins.
    var originLimits: OriginState.Limits
    /// The number of recipients' own origins.
    var originCapacity: OriginCapacity
    /// The way to recipients that each have an address of their own; nil for a provider with one address.
    package var addressing: (any RecipientAddressing)?
    /// True when an answer that calls a newly signed credential stale, though others are accepted with it, is about its recipient alone.
    package var bindsRecipients: Bool
    /// The number of bulk connections that are always kept, besides one for express.
    package var bulkConnectionsMin: Int
    /// The maximum number of bulk connections.
    package var bulkConnectionsMax: Int
    /// The maximum number of requests at a time on one connection, whatever the peer allows.
    package var streamsMax: Int
    /// The time limit of an answer; not less than ``requestTimeoutMin``.
    package var requestTimeout: TimeAmount
    /// The provider's minimum for the time limit of an answer.
    package var requestTimeoutMin: TimeAmount
    /// The time limit of connecting and the handshake.
    package var connectTimeout: TimeAmount
    /// The idle time after which a connection is checked by PING, so that one that a middlebox has dropped is found
    /// before a notification needs it.
    package var idlePing: TimeAmount
    /// The time of silence after which a connection with requests in flight is checked by PING.
    package var silencePing: TimeAmount
    /// The time limit of a PING's answer; after it the connection is closed.
    package var pingTimeout: TimeAmount
    /// The idle time after which a bulk connection above the minimum is closed.
    package var idleClose: TimeAmount
    /// The waits between attempts to connect.
    package var backoff: ConnectBackoff
    /// True when a new connection carries one request at a time until the first is answered, for a provider that allows
    /// one stream until it knows the client.
    package var startsWithOneStream: Bool
    /// True when a connection remembers the credentials and topics that it has seen: one on which a credential was
    /// refused or changed too often, or a topic is unknown, is replaced.
    package var bindsCredentials: Bool
    /// The interval between two checks of the connections.
    package var housekeeping: TimeAmount
    /// The number of consecutive requests without an answer after which a connection is closed.
    package var timeoutsMax: Int
    /// The longest time for which the provider may allow no requests at all on a connection before another takes its place.
    package var streamsForbiddenMax: TimeAmount
    /// The minimum age of a connection that is replaced because the provider does not know our topic on it: only a new
    /// one knows a topic that was added since.
    package var mappingAge: TimeAmount

    /// The host and port, and the address that is connected to instead, for messages.
    var peer: String {
        let way = self.connectsTo.map { " by way of \($0.host):\($0.port)" } ?? ""
        return "\(self.host):\(self.port)\(way)"
    }

    /// True when the values fit together.
    package var isValid: Bool { self.requestTimeout >= self.requestTimeoutMin && self.streamsMax >= 1 }

    /// Creates a configuration; the defaults are for production.
    package init(
        provider: Provider,
        answers: any AnswerReader,
        host: String,
        port: Int = WebAddress.securePort,
        bulkConnectionsMin: Int = 1,
        bulkConnectionsMax: Int = 2,
    ) {
        self.provider = provider
        self.answers = answers
        self.host = host
        self.port = port
        self.connectsTo = nil
        self.names = nil
        self.namesOfOrigins = { PublicNames.shared(by: $0) }
        self.originLimits = OriginState.Limits()
        self.originCapacity = OriginCapacity()
        self.addressing = nil
        self.bindsRecipients = false
        self.bulkConnectionsMin = bulkConnectionsMin
        self.bulkConnectionsMax = bulkConnectionsMax
        self.streamsMax = 1_000
        self.requestTimeout = .seconds(30)
        self.requestTimeoutMin = .nanoseconds(1)
        self.connectTimeout = .seconds(10)
        self.idlePing = .seconds(60)
        self.silencePing = .seconds(5)
        self.pingTimeout = .seconds(10)
        self.idleClose = .minutes(5)
        self.backoff = ConnectBackoff()
        self.startsWithOneStream = false
        self.bindsCredentials = false
        self.housekeeping = .seconds(1)
        self.timeoutsMax = 10
        self.streamsForbiddenMax = .seconds(5)
        self.mappingAge = .minutes(1)
    }

    var poolLimits: ConnectionPool.Limits {
        ConnectionPool.Limits(
            bulkMin: self.bulkConnectionsMin,
            bulkMax: self.bulkConnectionsMax,
            startsWithOneStream: self.startsWithOneStream,
            backoff: self.backoff,
            idleAfter: UInt64(self.idleClose.nanoseconds),
            timeoutsMax: self.timeoutsMax,
            forbiddenMax: UInt64(self.streamsForbiddenMax.nanoseconds),
        )
    }
}

/// A gateway's status, for metrics and readiness, never for decisions. Counts grow from the gateway's start.
package struct ProviderGatewayStatus: Hashable, Sendable {
    /// The current connections and requests.
    package var connections = ConnectionPool.Statistics()
    /// True when a connection is missing and the next attempt is not due yet.
    package var isBackingOff = false
    /// True when there is a credential to send with.
    package var hasCredential = false
    /// True when nothing is sent because the provider refuses the credential.
    package var isHeld = false
    /// The numbers of origins by state, where recipients have addresses of their own; see ``RecipientAddressing``.
    package var origins: [OriginStanding: Int] = [:]
    /// The counts since the gateway's start.
    package var counts = ProviderGatewayCounts()

    /// True when a request would be sent at once.
    package var isReady: Bool { self.hasCredential && !self.isHeld && self.connections.open > 0 }
}

/// Counts a gateway's events since its start.
package struct ProviderGatewayCounts: Hashable, Sendable {
    /// The number of requests submitted to a connection.
    package var submitted: UInt64 = 0
    /// The bytes of those requests' bodies, without tokens.
    package var payloadBytes: UInt64 = 0
    /// The number of those answered with 200.
    package var accepted: UInt64 = 0
    /// The numbers of those answered otherwise, by status.
    package var refusals: [Int: UInt64] = [:]
    /// The number of those turned away unprocessed.
    package var turnedAway: UInt64 = 0
    /// The number of those without an answer because their connection or stream ended.
    package var lost: UInt64 = 0
    /// The number of those without an answer in time.
    package var timedOut: UInt64 = 0
    /// The number of requests answered without being sent.
    package var answeredLocally: UInt64 = 0
    /// The number of attempts to connect.
    package var attempts: UInt64 = 0
    /// The number of attempts with a finished handshake.
    package var handshakes: UInt64 = 0
    /// The numbers of failed attempts, by reason.
    package var failures: [ConnectFailure: UInt64] = [:]
    /// The numbers of GOAWAY frames received, by error code.
    package var goAways: [GoAwayCode: UInt64] = [:]
    /// The bytes of HTTP/2 sent and received, including headers and all frames, without TLS.
    package var bytesSent: UInt64 = 0
    package var bytesReceived: UInt64 = 0

    /// The number of failed attempts.
    package var attemptsFailed: UInt64 { self.failures.values.reduce(0, +) }

    /// Adds the counts of another gateway.
    mutating func add(_ other: ProviderGatewayCounts) {
        self.submitted += other.submitted
        self.payloadBytes += other.payloadBytes
        self.accepted += other.accepted
        self.refusals.merge(other.refusals, uniquingKeysWith: +)
        self.turnedAway += other.turnedAway
        self.lost += other.lost
        self.timedOut += other.timedOut
        self.answeredLocally += other.answeredLocally
        self.attempts += other.attempts
        self.handshakes += other.handshakes
        self.failures.merge(other.failures, uniquingKeysWith: +)
        self.goAways.merge(other.goAways, uniquingKeysWith: +)
        self.bytesSent += other.bytesSent
        self.bytesReceived += other.bytesReceived
    }

    /// Adds a connection's bytes.
    mutating func add(_ handler: HTTP2ClientHandler) {
        self.bytesSent += handler.bytesSent
        self.bytesReceived += handler.bytesReceived
    }
}
