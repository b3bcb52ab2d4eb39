package import NIOCore

/// Receives the events of a server's connection, on its event loop.
package protocol HTTP2ServerDelegate: AnyObject {
    /// Receives an event. Requests may be answered from here, or later.
    func http2(_ handler: HTTP2ServerHandler, received event: HTTP2ServerEvent)
}

/// Drives an ``HTTP2ServerSession`` on one channel, for simulators and tests. All calls must be made on its event loop.
package final class HTTP2ServerHandler: HTTP2ConnectionHandler {
    private var session: HTTP2ServerSession
    private var delegate: (any HTTP2ServerDelegate)?
    private var isDelivering = false

    /// Creates a handler that reports to `delegate`, which it holds until `closed` was delivered.
    package init(
        configuration: HTTP2ServerConfiguration = HTTP2ServerConfiguration(),
        delegate: any HTTP2ServerDelegate,
    ) throws(HTTP2Error) {
        self.session = try HTTP2ServerSession(configuration: configuration)
        self.delegate = delegate
        super.init()
    }

    // MARK: State

    /// The number of open streams.
    package var openStreams: Int { self.session.openStreams }
    /// The largest number of streams that were open at the same time.
    package var streamsOpenMax: Int { self.session.streamsOpenMax }
    /// The bytes that the client allows us to send on the connection now.
    package var connectionWindow: Int { self.session.connectionWindow }
    /// The bytes that the client may still send on the connection.
    package var receiveWindow: Int { self.session.receiveWindow }
    /// The event loop of all calls; nil before the handler is in a pipeline.
    package var eventLoop: (any EventLoop)? { self.context?.eventLoop }

    // MARK: Answers and control

    /// Answers a request; returns false when its stream has ended or it was answered before.
    @discardableResult
    package func respond(to streamID: Int32, _ response: HTTP2Response) -> Bool {
        let isTaken = self.session.respond(to: streamID, response)
        self.scheduleFlush()
        return isTaken
    }

    /// Answers a request later, if its stream still exists then.
    package func respond(to streamID: Int32, _ response: HTTP2Response, after delay: TimeAmount) {
        guard let context = self.context else { return }
        _ = context.eventLoop.assumeIsolated().scheduleTask(in: delay) {
            _ = self.respond(to: streamID, response)
        }
    }

    /// Resets a stream.
    package func reset(_ streamID: Int32, code: HTTP2ErrorCode) {
        self.session.reset(streamID, code: code)
        self.scheduleFlush()
    }

    /// Sends GOAWAY; streams above `lastStreamID` are dropped.
    package func goAway(lastStreamID: Int32, code: HTTP2ErrorCode, debug: [UInt8] = []) {
        self.session.goAway(lastStreamID: lastStreamID, code: code, debug: debug)
        self.scheduleFlush()
    }

    /// Changes SETTINGS; nil leaves a setting unchanged.
    package func updateSettings(maxConcurrentStreams: UInt32? = nil, streamWindow: Int? = nil) {
        self.session.updateSettings(maxConcurrentStreams: maxConcurrentStreams, streamWindow: streamWindow)
        self.scheduleFlush()
    }

    /// Sends a PING.
    package func ping() {
        self.session.ping()
        self.scheduleFlush()
    }

    /// Closes the connection at once, without GOAWAY.
    package func close() {
        self.session.close()
        self.deliver()
    }

    // MARK: Reads and writes

    override func receive(_ bytes: ByteBuffer) {
        self.session.receive(bytes.readableBytesUInt8Span)
        self.deliver()
    }

    override func flush() {
        if self.session.wantsWrite { self.write { self.session.drainOutbound(into: &$0, limit: $1) } }
        self.deliver()
    }

    private func deliver() {
        guard !self.isDelivering else { return }
        self.isDelivering = true
        defer { self.isDelivering = false }
        while let event = self.session.nextEvent() {
            self.delegate?.http2(self, received: event)
            guard case .closed = event else { continue }
            self.delegate = nil
            self.context?.close(promise: nil)
        }
    }

    override func transportEnded(_ message: String) {
        self.session.close(.transport(message))
        self.deliver()
    }
}
