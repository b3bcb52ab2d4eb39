internal import CNghttp2
package import NIOCore

/// A server's HTTP/2 connection as a pure engine, for simulators and tests: nghttp2's session implements the protocol,
/// and the caller decides the answers.
@safe package struct HTTP2ServerSession: ~Copyable {
    private let raw: OpaquePointer
    private let state: UnsafeMutablePointer<ServerState>
    private var isTerminated = false
    private var isDraining = false
    /// True when `closed` is among the events.
    package private(set) var isFinished = false

    /// Creates a connection that waits for the client's preface; its SETTINGS are the first outbound bytes.
    package init(configuration: HTTP2ServerConfiguration = HTTP2ServerConfiguration()) throws(HTTP2Error) {
        let callbacks = unsafe try ServerCallbacks.make()
        defer { unsafe nghttp2_session_callbacks_del(callbacks) }
        var options: OpaquePointer?
        guard unsafe nghttp2_option_new(&options) == 0 else { throw HTTP2Error(.outOfMemory, "nghttp2_option_new") }
        defer { unsafe nghttp2_option_del(options) }
        unsafe nghttp2_option_set_no_closed_streams(options, 1)
        unsafe nghttp2_option_set_max_settings(options, HTTP2Limits.settingsEntriesMax)
        unsafe nghttp2_option_set_max_outbound_ack(options, HTTP2Limits.acknowledgementsMax)
        let state = UnsafeMutablePointer<ServerState>.allocate(capacity: 1)
        unsafe state.initialize(to: ServerState(configuration: configuration))
        var made: OpaquePointer?
        guard unsafe nghttp2_session_server_new2(&made, callbacks, state, options) == 0, let raw = unsafe made else {
            unsafe state.deinitialize(count: 1)
            unsafe state.deallocate()
            throw HTTP2Error(.outOfMemory, "nghttp2_session_server_new2")
        }
        unsafe self.raw = raw
        unsafe self.state = state
        var settings: [nghttp2_settings_entry] = [
            .init(
                settings_id: Int32(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE.rawValue),
                value: UInt32(configuration.streamWindow),
            ),
            .init(
                settings_id: Int32(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE.rawValue),
                value: UInt32(configuration.headerListBytesMax),
            ),
        ]
        if let streams = configuration.maxConcurrentStreams {
            settings.append(
                .init(settings_id: Int32(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue), value: streams)
            )
        }
        let flags = UInt8(NGHTTP2_FLAG_NONE.rawValue)
        let isSet = unsafe nghttp2_submit_settings(raw, flags, settings, settings.count)
        let isWide = unsafe nghttp2_session_set_local_window_size(raw, flags, 0, Int32(configuration.connectionWindow))
        precondition(isSet == 0 && isWide == 0, "the configuration was checked")
    }

    deinit {
        unsafe nghttp2_session_del(self.raw)
        unsafe self.state.deinitialize(count: 1)
        unsafe self.state.deallocate()
    }

    // MARK: State

    /// The number of open streams.
    package var openStreams: Int { unsafe self.state.pointee.openStreams }
    /// The largest number of streams that were open at the same time.
    package var streamsOpenMax: Int { unsafe self.state.pointee.streamsOpenMax }
    /// The bytes that the client allows us to send on the connection now.
    package var connectionWindow: Int { unsafe Int(nghttp2_session_get_remote_window_size(self.raw)) }
    /// The bytes that the client may still send on the connection.
    package var receiveWindow: Int { unsafe Int(nghttp2_session_get_local_window_size(self.raw)) }
    /// True when ``drainOutbound(into:limit:)`` has something to write.
    package var wantsWrite: Bool { unsafe !self.isFinished && nghttp2_session_want_write(self.raw) != 0 }

    // MARK: Bytes

    /// Parses bytes from the client.
    package mutating func receive(_ bytes: Span<UInt8>) {
        guard !self.isFinished, !self.isTerminated else { return }
        let result = unsafe bytes.withUnsafeBufferPointer {
            unsafe nghttp2_session_mem_recv(self.raw, $0.baseAddress, $0.count)
        }
        guard result < 0 else { return self.finishIfOver() }
        switch Int32(result) {
        case Int32(NGHTTP2_ERR_NOMEM.rawValue): self.finish(.outOfMemory)
        case Int32(NGHTTP2_ERR_FLOODED.rawValue): self.finish(.limitExceeded(.acknowledgements))
        case Int32(NGHTTP2_ERR_BAD_CLIENT_MAGIC.rawValue): self.finish(.notHTTP2)
        case Int32(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue): self.finish(self.reason)
        default: self.finish(.protocolViolation(unsafe String(cString: nghttp2_strerror(Int32(result)))))
        }
    }

    /// Appends frames to `buffer`, about `limit` bytes and at most two frames more. Returns true when more is waiting.
    package mutating func drainOutbound(into buffer: inout ByteBuffer, limit: Int) -> Bool {
        precondition(limit > 0)
        guard !self.isFinished else { return false }
        var failure: Int32 = 0
        unsafe buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: OutputCursor.room(for: limit)) { room in
            guard let start = unsafe room.baseAddress?.assumingMemoryBound(to: UInt8.self) else { return 0 }
            unsafe self.state.pointee.output.begin(start, limit: limit)
            while unsafe self.state.pointee.output.hasRoom {
                var chunk: UnsafePointer<UInt8>?
                let count = unsafe nghttp2_session_mem_send(self.raw, &chunk)
                guard count > 0, let chunk = unsafe chunk else {
                    failure = Int32(count)
                    break
                }
                precondition(count <= HTTP2Limits.chunkBytesMax)
                unsafe self.state.pointee.output.append(chunk, count: count)
            }
            unsafe self.state.pointee.output.end()
            return unsafe self.state.pointee.output.count
        }
        if failure < 0 {
            self.finish(
                failure == NGHTTP2_ERR_NOMEM.rawValue ? .outOfMemory : .protocolViolation("nothing can be sent")
            )
            return false
        }
        self.finishIfOver()
        return unsafe self.state.pointee.output.isBlocked || !self.state.pointee.output.hasRoom
    }

    /// Returns the next event, in order.
    package mutating func nextEvent() -> HTTP2ServerEvent? { unsafe self.state.pointee.dequeue() }

    // MARK: Answers

    /// Answers a request; returns false when its stream has ended or it was answered before.
    @discardableResult
    package mutating func respond(to streamID: Int32, _ response: HTTP2Response) -> Bool {
        guard !self.isFinished, let stream = unsafe ServerCallbacks.stream(self.raw, streamID),
            unsafe !stream.pointee.isAnswered
        else { return false }
        unsafe stream.pointee.isAnswered = true
        unsafe stream.pointee.answer = response.body
        unsafe stream.pointee.answerSent = 0
        unsafe stream.pointee.isAnswerUnfinished = response.isUnfinished
        let status: (UInt8, UInt8, UInt8) = (
            UInt8(0x30 + response.status / 100), UInt8(0x30 + response.status / 10 % 10),
            UInt8(0x30 + response.status % 10)
        )
        let count = response.headers.count + 1
        let raw = unsafe self.raw
        let bytes = response.headers.reduce(3 + 7) { $0 + $1.name.utf8.count + $1.value.count }
        let result = unsafe withUnsafeTemporaryAllocation(of: nghttp2_nv.self, capacity: count) { fields in
            unsafe withUnsafeTemporaryAllocation(of: UInt8.self, capacity: bytes) { texts in
                guard var cursor = texts.baseAddress else { return Int32(-1) }
                func place(_ bytes: some Sequence<UInt8>) -> ByteRun {
                    let start = unsafe cursor
                    for byte in bytes {
                        unsafe cursor.pointee = byte
                        unsafe cursor += 1
                    }
                    return unsafe ByteRun(start: start, count: cursor - start)
                }
                let name = place(":status".utf8)
                let value = place(CollectionOfOne(status.0))
                _ = place(CollectionOfOne(status.1))
                _ = place(CollectionOfOne(status.2))
                // nghttp2 copies the fields.
                unsafe fields[0] = nghttp2_nv(
                    name: name.start,
                    value: value.start,
                    namelen: name.count,
                    valuelen: 3,
                    flags: 0,
                )
                for (index, header) in response.headers.enumerated() {
                    let name = place(header.name.utf8)
                    unsafe fields[index + 1] = nghttp2_nv(
                        name: name.start,
                        value: header.value.start,
                        namelen: name.count,
                        valuelen: header.value.count,
                        flags: 0,
                    )
                }
                guard !response.body.isEmpty || response.isUnfinished else {
                    return unsafe nghttp2_submit_response(raw, streamID, fields.baseAddress, count, nil)
                }
                var body = unsafe nghttp2_data_provider(
                    source: nghttp2_data_source(ptr: UnsafeMutableRawPointer(stream)),
                    read_callback: ServerCallbacks.bodyCallback,
                )
                return unsafe nghttp2_submit_response(raw, streamID, fields.baseAddress, count, &body)
            }
        }
        return result == 0
    }

    /// Resets a stream.
    package mutating func reset(_ streamID: Int32, code: HTTP2ErrorCode) {
        guard !self.isFinished else { return }
        _ = unsafe nghttp2_submit_rst_stream(self.raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), streamID, code.rawValue)
    }

    /// Sends GOAWAY. Streams above `lastStreamID` are dropped without an answer; the connection stays open until
    /// ``close()`` or until the client closes it.
    package mutating func goAway(lastStreamID: Int32, code: HTTP2ErrorCode, debug: [UInt8] = []) {
        precondition(lastStreamID >= 0 && debug.count <= HTTP2Limits.goAwayDebugBytesMax)
        guard !self.isFinished else { return }
        let flags = UInt8(NGHTTP2_FLAG_NONE.rawValue)
        let result = unsafe nghttp2_submit_goaway(self.raw, flags, lastStreamID, code.rawValue, debug, debug.count)
        precondition(result == 0 || result == NGHTTP2_ERR_NOMEM.rawValue, "lastStreamID is not a client's")
        self.isDraining = true
    }

    /// Changes SETTINGS; nil leaves a setting unchanged.
    package mutating func updateSettings(
        maxConcurrentStreams: UInt32? = nil,
        streamWindow: Int? = nil,
        headerTableBytes: UInt32? = nil,
    ) {
        guard !self.isFinished else { return }
        var settings: [nghttp2_settings_entry] = []
        if let maxConcurrentStreams {
            settings.append(
                .init(
                    settings_id: Int32(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS.rawValue),
                    value: maxConcurrentStreams,
                )
            )
        }
        if let streamWindow {
            settings.append(
                .init(
                    settings_id: Int32(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE.rawValue),
                    value: UInt32(streamWindow),
                )
            )
        }
        if let headerTableBytes {
            settings.append(
                .init(
                    settings_id: Int32(NGHTTP2_SETTINGS_HEADER_TABLE_SIZE.rawValue),
                    value: headerTableBytes,
                )
            )
        }
        let result = unsafe nghttp2_submit_settings(
            self.raw,
            UInt8(NGHTTP2_FLAG_NONE.rawValue),
            settings,
            settings.count,
        )
        precondition(result == 0 || result == NGHTTP2_ERR_NOMEM.rawValue, "a setting beyond its range")
    }

    /// Sends a PING.
    package mutating func ping() {
        guard !self.isFinished else { return }
        _ = unsafe nghttp2_submit_ping(self.raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil)
    }

    /// Ends the connection at once.
    package mutating func close(_ reason: HTTP2CloseReason = .closed) {
        guard !self.isFinished else { return }
        self.finish(reason)
    }

    private mutating func finishIfOver() {
        guard !self.isFinished, unsafe nghttp2_session_want_read(self.raw) == 0 else { return }
        guard unsafe nghttp2_session_want_write(self.raw) == 0 else {
            self.isTerminated = true
            return
        }
        self.finish(self.reason)
    }

    private var reason: HTTP2CloseReason {
        if let limit = unsafe self.state.pointee.violation { return .limitExceeded(limit) }
        if unsafe self.state.pointee.isNotHTTP2 { return .notHTTP2 }
        if self.isDraining { return .drained }
        if unsafe self.state.pointee.isGoAwayReceived { return unsafe .goAway(self.state.pointee.goAwayCode) }
        return unsafe .protocolViolation(self.state.pointee.message)
    }

    private mutating func finish(_ reason: HTTP2CloseReason) {
        self.isFinished = true
        unsafe self.state.pointee.enqueue(.closed(reason))
    }
}
