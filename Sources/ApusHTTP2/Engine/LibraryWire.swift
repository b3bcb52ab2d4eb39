internal import CNghttp2

/// A client's frames by nghttp2's own session: the reference that ``LeanWire`` is compared with.
///
/// Freed by hand by the one who owns it.
@safe struct LibraryWire {
    private let raw: OpaquePointer
    private let state: UnsafeMutablePointer<ClientState>
    /// Room for the header list of one request.
    private let fields: UnsafeMutablePointer<nghttp2_nv>

    private static let fieldsMax = HTTP2Limits.headersMax + 6

    init(_ state: UnsafeMutablePointer<ClientState>) throws(HTTP2Error) {
        let configuration = unsafe state.pointee.configuration
        let callbacks = unsafe try ClientCallbacks.make()
        defer { unsafe nghttp2_session_callbacks_del(callbacks) }
        var options: OpaquePointer?
        guard unsafe nghttp2_option_new(&options) == 0 else { throw HTTP2Error(.outOfMemory, "nghttp2_option_new") }
        defer { unsafe nghttp2_option_del(options) }
        unsafe nghttp2_option_set_no_closed_streams(options, 1)
        unsafe nghttp2_option_set_max_settings(options, HTTP2Limits.settingsEntriesMax)
        unsafe nghttp2_option_set_max_outbound_ack(options, HTTP2Limits.acknowledgementsMax)
        unsafe nghttp2_option_set_peer_max_concurrent_streams(
            options,
            UInt32(clamping: configuration.streamsMaxBeforeSettings),
        )
        var made: OpaquePointer?
        guard unsafe nghttp2_session_client_new2(&made, callbacks, state, options) == 0, let raw = unsafe made else {
            throw HTTP2Error(.outOfMemory, "nghttp2_session_client_new2")
        }
        unsafe self.raw = raw
        unsafe self.state = state
        unsafe self.fields = .allocate(capacity: Self.fieldsMax)
        let settings: [nghttp2_settings_entry] = [
            .init(settings_id: Int32(NGHTTP2_SETTINGS_ENABLE_PUSH.rawValue), value: 0),
            .init(
                settings_id: Int32(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE.rawValue),
                value: UInt32(configuration.streamWindow),
            ),
            .init(
                settings_id: Int32(NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE.rawValue),
                value: UInt32(configuration.headerListBytesMax),
            ),
        ]
        let flags = UInt8(NGHTTP2_FLAG_NONE.rawValue)
        let isSet = unsafe nghttp2_submit_settings(raw, flags, settings, settings.count)
        let isWide = unsafe nghttp2_session_set_local_window_size(raw, flags, 0, Int32(configuration.connectionWindow))
        precondition(isSet == 0 && isWide == 0, "the configuration was checked")
    }

    func free() {
        unsafe nghttp2_session_del(self.raw)
        unsafe self.fields.deallocate()
    }

    // MARK: How it stands

    var connectionWindow: Int { unsafe Int(nghttp2_session_get_remote_window_size(self.raw)) }

    var wantsWrite: Bool { unsafe nghttp2_session_want_write(self.raw) != 0 }

    var standing: ClientWire.Standing {
        guard unsafe nghttp2_session_want_read(self.raw) == 0 else { return .alive }
        return self.wantsWrite ? .lastWords : .over
    }

    // MARK: Bytes

    func receive(_ bytes: UnsafeBufferPointer<UInt8>) throws(WireFailure) {
        let result = unsafe nghttp2_session_mem_recv(self.raw, bytes.baseAddress, bytes.count)
        guard result < 0 else { return }
        switch Int32(result) {
        case Int32(NGHTTP2_ERR_NOMEM.rawValue): throw WireFailure(goodbye: nil, reason: .outOfMemory)
        case Int32(NGHTTP2_ERR_FLOODED.rawValue):
            throw WireFailure(goodbye: .enhanceYourCalm, reason: .limitExceeded(.acknowledgements))
        case Int32(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue): throw .limit
        default:
            let text = unsafe String(cString: nghttp2_strerror(Int32(result)))
            throw WireFailure(goodbye: .protocolError, reason: .protocolViolation(text))
        }
    }

    func drain() throws(WireFailure) {
        while unsafe self.state.pointee.output.hasRoom {
            var chunk: UnsafePointer<UInt8>?
            let count = unsafe nghttp2_session_mem_send(self.raw, &chunk)
            guard count > 0, let chunk = unsafe chunk else {
                guard count < 0 else { return }
                let isMemory = count == Int(NGHTTP2_ERR_NOMEM.rawValue)
                throw WireFailure(
                    goodbye: nil,
                    reason: isMemory ? .outOfMemory : .protocolViolation("nothing can be sent")
                )
            }
            precondition(count <= HTTP2Limits.chunkBytesMax)
            unsafe self.state.pointee.output.append(chunk, count: count)
        }
    }

    // MARK: Requests

    @inline(__always)
    func submit(
        _ slot: UnsafeMutablePointer<ClientSlot>,
        _ template: RequestTemplate,
        _ authorization: HeaderValue?,
    ) -> Bool {
        var count = template.fieldCount
        unsafe self.fields.update(from: template.fields, count: count)
        guard let start = unsafe slot.pointee.request.start else { preconditionFailure("an empty slot") }
        let pathCount = unsafe slot.pointee.pathCount
        if pathCount > 0 {
            unsafe self.fields[RequestTemplate.pathIndex].value = start
            unsafe self.fields[RequestTemplate.pathIndex].valuelen = pathCount
        }
        if unsafe slot.pointee.hasID {
            let value = unsafe RequestTemplate.Segment(start: start + pathCount, count: RequestID.textBytes)
            // Never the same twice: it would only push useful entries out of the peer's table.
            let flags = UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue)
            unsafe self.fields[count] = nghttp2_nv(borrowing: HeaderNames.shared.id, value, flags: flags)
            count += 1
        }
        if let authorization {
            let value = unsafe RequestTemplate.Segment(start: authorization.start, count: authorization.count)
            unsafe self.fields[count] = nghttp2_nv(borrowing: HeaderNames.shared.authorization, value)
            count += 1
        }
        return unsafe self.send(slot, fieldCount: count)
    }

    func submitPlain(_ slot: UnsafeMutablePointer<ClientSlot>, _ request: PlainRequest) -> Bool {
        let texts = request.texts
        let bytes = texts.reduce(request.body.count) { $0 + $1.0.utf8.count + $1.1.utf8.count }
        let start = unsafe slot.pointee.request.reserve(bytes)
        var cursor = unsafe start
        func place(_ bytes: some Collection<UInt8>) -> RequestTemplate.Segment {
            let start = unsafe cursor
            for byte in bytes {
                unsafe cursor.pointee = byte
                unsafe cursor += 1
            }
            return unsafe RequestTemplate.Segment(start: start, count: bytes.count)
        }
        for (index, text) in texts.enumerated() {
            let name = place(text.0.utf8)
            let value = place(text.1.utf8)
            unsafe self.fields[index] = nghttp2_nv(borrowing: name, value)
        }
        let middle = unsafe cursor - start
        _ = place(request.body)
        unsafe slot.pointee.setPlainBody(middle..<middle + request.body.count)
        return unsafe self.send(slot, fieldCount: texts.count)
    }

    @inline(__always)
    private func send(_ slot: UnsafeMutablePointer<ClientSlot>, fieldCount: Int) -> Bool {
        let streamID: Int32
        if unsafe slot.pointee.bodyCount > 0 {
            var body = unsafe nghttp2_data_provider(
                source: nghttp2_data_source(ptr: UnsafeMutableRawPointer(slot)),
                read_callback: ClientCallbacks.bodyCallback,
            )
            streamID = unsafe nghttp2_submit_request(self.raw, nil, self.fields, fieldCount, &body, slot)
        } else {
            streamID = unsafe nghttp2_submit_request(self.raw, nil, self.fields, fieldCount, nil, slot)
        }
        guard streamID > 0 else { return false }
        unsafe slot.pointee.streamID = streamID
        return true
    }

    func cancel(_ slot: UnsafeMutablePointer<ClientSlot>) {
        guard unsafe !slot.pointee.isResetSubmitted else { return }
        unsafe slot.pointee.isResetSubmitted = true
        let flags = UInt8(NGHTTP2_FLAG_NONE.rawValue)
        _ = unsafe nghttp2_submit_rst_stream(
            self.raw,
            flags,
            slot.pointee.streamID,
            HTTP2ErrorCode.cancel.rawValue,
        )
    }

    /// A stream that the library has not opened yet has not left.
    func wasSent(_ slot: UnsafeMutablePointer<ClientSlot>) -> Bool {
        unsafe nghttp2_session_find_stream(self.raw, slot.pointee.streamID) != nil
    }

    func ping() -> Bool { unsafe nghttp2_submit_ping(self.raw, UInt8(NGHTTP2_FLAG_NONE.rawValue), nil) == 0 }
}

/// The names of the headers that come with each request, at an address that lasts as long as the program.
@safe private struct HeaderNames: Sendable {
    static let shared = HeaderNames()

    nonisolated(unsafe) let id: RequestTemplate.Segment
    nonisolated(unsafe) let authorization: RequestTemplate.Segment

    private init() {
        unsafe self.id = Self.place("apns-id")
        unsafe self.authorization = Self.place("authorization")
    }

    private static func place(_ name: StaticString) -> RequestTemplate.Segment {
        // nghttp2's structure takes a mutable pointer and never writes through it.
        unsafe RequestTemplate.Segment(
            start: UnsafeMutablePointer(mutating: name.utf8Start),
            count: name.utf8CodeUnitCount,
        )
    }
}
