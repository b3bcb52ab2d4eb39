package import ApusCore
internal import ApusHTTP2
package import NIOCore

/// Where a route's requests go, and how.
package struct ProviderGatewayConfiguration: Sendable {
    /// Where requests go.
    package var provider: Provider
    /// How its answers are read.
    package let answers: any AnswerReader
    /// Where to connect, and the name that the certificate must be for.
    package var host: String
    /// Where to connect.
    package var port: Int
    /// Connections for bulk that are always kept. One more is for express.
    package var bulkConnectionsMin: Int
    /// Connections for bulk at most.
    package var bulkConnectionsMax: Int
    /// Requests at a time on one connection, whatever the peer allows.
    package var streamsMax: Int
    /// How long an answer is awaited; not less than ``requestTimeoutMin``.
    package var requestTimeout: TimeAmount
    /// How long the provider wants its answers to be awaited at least before anything is sent again.
    package var requestTimeoutMin: TimeAmount
    /// How long connecting and the handshake may take.
    package var connectTimeout: TimeAmount
    /// A PING on a connection that has been idle for so long: a connection that a
    /// middlebox has dropped is found before a notification needs it.
    package var idlePing: TimeAmount
    /// A PING on a connection that owes answers and has been silent for so long.
    package var silencePing: TimeAmount
    /// How long a PING's answer is awaited; then the connection is given up.
    package var pingTimeout: TimeAmount
    /// A bulk connection above the minimum closes when it was idle for so long.
    package var idleClose: TimeAmount
    /// Waits between attempts to connect.
    package var backoff: ConnectBackoff
    /// One request at a time on a new connection until the first was answered: for a provider that allows one stream until it knows us.
    package var startsWithOneStream: Bool
    /// Whether a connection keeps in mind which credentials and topics it has seen: one on which a credential was refused or changed too often,
    /// or a topic is not known, is given up for a new one.
    package var bindsCredentials: Bool
    /// How often connections are looked after.
    package var housekeeping: TimeAmount
    /// Requests in a row without an answer after which a connection is closed.
    package var timeoutsMax: Int
    /// How long the provider may allow no requests at all on a connection before another takes its place.
    package var streamsForbiddenMax: TimeAmount
    /// How old a connection is at least that is given up because the provider does not know our topic on it: only a new one knows of a topic
    /// that has been added since.
    package var mappingAge: TimeAmount

    /// Whether a gateway can be made of it.
    package var isValid: Bool { self.requestTimeout >= self.requestTimeoutMin && self.streamsMax >= 1 }

    /// Defaults are production's.
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

/// How a gateway stands: for metrics and readiness, never for decisions. Counts grow from the gateway's start.
package struct ProviderGatewayStatus: Hashable, Sendable {
    /// Connections and requests of the moment.
    package var connections = ConnectionPool.Census()
    /// Whether a connection is wanted, and not tried for before a while is over.
    package var isBackingOff = false
    /// Whether there is a credential to send with.
    package var hasCredential = false
    /// Whether nothing goes out because the provider refuses the credential.
    package var isHeld = false
    /// What has happened so far.
    package var counts = ProviderGatewayCounts()

    /// Whether a request would go out at once.
    package var isReady: Bool { self.hasCredential && !self.isHeld && self.connections.open > 0 }
}

/// What has happened at a gateway since its start.
package struct ProviderGatewayCounts: Hashable, Sendable {
    /// Requests handed to a connection.
    package var submitted: UInt64 = 0
    /// Bytes of their bodies, without tokens.
    package var payloadBytes: UInt64 = 0
    /// Of those, answered with 200.
    package var accepted: UInt64 = 0
    /// Of those, answered otherwise; by status.
    package var refusals: [Int: UInt64] = [:]
    /// Of those, turned away unseen.
    package var turnedAway: UInt64 = 0
    /// Of those, without an answer because their connection or stream ended.
    package var lost: UInt64 = 0
    /// Of those, without an answer in time.
    package var timedOut: UInt64 = 0
    /// Requests answered without being sent.
    package var answeredLocally: UInt64 = 0
    /// Attempts to connect.
    package var attempts: UInt64 = 0
    /// Of those, with a finished handshake.
    package var handshakes: UInt64 = 0
    /// Of those, failed; by why.
    package var failures: [ConnectFailure: UInt64] = [:]
    /// GOAWAY frames that came; by what they say.
    package var goAways: [GoAwayCode: UInt64] = [:]
    /// Bytes of HTTP/2 that went out and came in, headers and frames of all kinds among them, TLS not.
    package var bytesSent: UInt64 = 0
    package var bytesReceived: UInt64 = 0

    /// Attempts that failed.
    package var attemptsFailed: UInt64 { self.failures.values.reduce(0, +) }

    /// A connection's bytes.
    mutating func add(_ handler: HTTP2ClientHandler) {
        self.bytesSent += handler.bytesSent
        self.bytesReceived += handler.bytesReceived
    }
}
