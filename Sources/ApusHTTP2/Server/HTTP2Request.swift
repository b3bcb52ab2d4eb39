/// A complete request as a server received it.
package struct HTTP2Request: Sendable {
    struct Field: Sendable {
        let nameStart: Int
        let valueStart: Int
        let valueEnd: Int
    }

    /// The stream to answer on.
    package let streamID: Int32
    /// The body.
    package let body: [UInt8]

    private let bytes: [UInt8]
    private let list: [Field]

    init(streamID: Int32, bytes: [UInt8], list: [Field], body: [UInt8]) {
        self.streamID = streamID
        self.bytes = bytes
        self.list = list
        self.body = body
    }

    /// The value of ":method".
    package var method: String { self.value(of: ":method") ?? "" }
    /// The value of ":path".
    package var path: String { self.value(of: ":path") ?? "" }
    /// The value of ":authority".
    package var authority: String { self.value(of: ":authority") ?? "" }

    /// All header fields in order, pseudo headers first.
    package var fields: [(name: String, value: String)] {
        self.list.map { (self.text($0.nameStart..<$0.valueStart), self.text($0.valueStart..<$0.valueEnd)) }
    }

    /// Returns the first value of a name.
    package func value(of name: String) -> String? {
        self.list.first { self.isNamed($0, name) }.map { self.text($0.valueStart..<$0.valueEnd) }
    }

    /// Returns how often a name occurs. A provider may refuse duplicates, `DuplicateHeaders`
    /// (https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns).
    package func count(of name: String) -> Int { self.list.count { self.isNamed($0, name) } }

    private func isNamed(_ field: Field, _ name: String) -> Bool {
        self.bytes[field.nameStart..<field.valueStart].elementsEqual(name.utf8)
    }

    private func text(_ range: Range<Int>) -> String { String(decoding: self.bytes[range], as: UTF8.self) }
}

/// A server's answer.
package struct HTTP2Response: Sendable {
    /// The status, 200...599.
    package let status: Int
    /// The headers without ":status".
    package let headers: [HeaderField]
    /// The body; when empty, the stream ends with the headers.
    package let body: [UInt8]
    /// True when the stream stays open behind the body, as if more followed: to simulate a fault.
    package var isUnfinished = false

    /// Creates an answer.
    package init(status: Int, headers: [HeaderField] = [], body: [UInt8] = []) {
        precondition((200...599).contains(status) && headers.count <= HTTP2Limits.headersMax)
        self.status = status
        self.headers = headers
        self.body = body
    }
}

/// An event on a server's connection.
package enum HTTP2ServerEvent: Sendable {
    /// A request is complete.
    case requested(HTTP2Request)
    /// The client cancelled a request before its answer was complete; also one that never was complete.
    case cancelled(streamID: Int32, code: HTTP2ErrorCode)
    /// The client acknowledged our SETTINGS.
    case settingsAcknowledged
    /// The client answered our PING.
    case pingAcknowledged
    /// The client sent GOAWAY.
    case goAway(code: HTTP2ErrorCode)
    /// The connection has ended; no event follows.
    case closed(HTTP2CloseReason)
}

/// The configuration of a server's connections.
package struct HTTP2ServerConfiguration: Hashable, Sendable {
    /// The maximum number of concurrent requests of a client; nil when SETTINGS do not limit them.
    package var maxConcurrentStreams: UInt32?
    /// The window of one stream: the bytes that a client may send ahead of us.
    package var streamWindow: Int
    /// The window of the connection: the bytes that a client may send ahead of us.
    package var connectionWindow: Int
    /// The maximum bytes of a request's body; a stream with a longer one is reset.
    package var bodyBytesMax: Int
    /// The maximum bytes of a request's header list (RFC 9113 §6.5.2); a longer one ends the connection.
    package var headerListBytesMax: Int

    /// Creates a configuration; its windows are like those of large providers.
    package init(
        maxConcurrentStreams: UInt32? = 1_000,
        streamWindow: Int = 65_535,
        connectionWindow: Int = 65_535,
        bodyBytesMax: Int = 64 * 1_024,
        headerListBytesMax: Int = 16 * 1_024,
    ) {
        precondition((1...0x7fff_ffff).contains(streamWindow) && (65_535...0x7fff_ffff).contains(connectionWindow))
        precondition(bodyBytesMax >= 0 && headerListBytesMax > 0)
        self.maxConcurrentStreams = maxConcurrentStreams
        self.streamWindow = streamWindow
        self.connectionWindow = connectionWindow
        self.bodyBytesMax = bodyBytesMax
        self.headerListBytesMax = headerListBytesMax
    }
}
