internal import CNghttp2

/// The thunks between nghttp2 and ``ClientState``: each casts, forwards, returns.
enum ClientCallbacks {
    private static let failure = Int32(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue)

    /// The callbacks object; the caller frees it.
    static func make() throws(HTTP2Error) -> OpaquePointer {
        var made: OpaquePointer?
        guard unsafe nghttp2_session_callbacks_new(&made) == 0, let callbacks = unsafe made else {
            throw HTTP2Error(.outOfMemory, "nghttp2_session_callbacks_new")
        }
        unsafe nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { session, frame, userData in
            let slot = unsafe ClientCallbacks.slot(session, frame?.pointee.hd.stream_id ?? 0)
            unsafe ClientCallbacks.state(userData).pointee.headersBegan(slot)
            return 0
        }
        unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks) {
            _,
            _,
            name,
            nameCount,
            value,
            valueCount,
            _,
            userData in
            let name = unsafe UnsafeBufferPointer(start: name, count: nameCount)
            let value = unsafe UnsafeBufferPointer(start: value, count: valueCount)
            let isKept = unsafe ClientCallbacks.state(userData).pointee.headerReceived(name, value)
            return isKept ? 0 : ClientCallbacks.failure
        }
        unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) {
            session,
            _,
            streamID,
            data,
            count,
            userData in
            guard let slot = unsafe ClientCallbacks.slot(session, streamID) else { return 0 }
            let bytes = unsafe UnsafeBufferPointer(start: data, count: count)
            unsafe ClientCallbacks.state(userData).pointee.bodyReceived(slot, bytes)
            return 0
        }
        unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { session, frame, userData in
            guard let frame = unsafe frame else { return 0 }
            return unsafe ClientCallbacks.frameReceived(session, frame, ClientCallbacks.state(userData))
        }
        unsafe nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks) { session, frame, _, userData in
            guard let frame = unsafe frame, unsafe frame.pointee.hd.type == NGHTTP2_HEADERS.rawValue else { return 0 }
            unsafe ClientCallbacks.slot(session, frame.pointee.hd.stream_id)?.pointee.isNeverSent = true
            return 0
        }
        unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { session, streamID, code, userData in
            guard let slot = unsafe ClientCallbacks.slot(session, streamID) else { return 0 }
            unsafe ClientCallbacks.state(userData).pointee.streamClosed(slot, code: code)
            return 0
        }
        unsafe nghttp2_session_callbacks_set_send_data_callback(callbacks) {
            session,
            frame,
            header,
            count,
            source,
            userData in
            guard let header = unsafe header,
                let slot = unsafe source?.pointee.ptr?.assumingMemoryBound(to: ClientSlot.self)
            else { return ClientCallbacks.failure }
            let state = unsafe ClientCallbacks.state(userData)
            let isWritten = unsafe slot.pointee.writeBody(header: header, count: count, to: &state.pointee.output)
            return isWritten ? 0 : Int32(NGHTTP2_ERR_WOULDBLOCK.rawValue)
        }
        unsafe nghttp2_session_callbacks_set_error_callback2(callbacks) { _, code, message, count, userData in
            guard let message = unsafe message else { return 0 }
            let isNotHTTP2 = code == NGHTTP2_ERR_SETTINGS_EXPECTED.rawValue
            unsafe message.withMemoryRebound(to: UInt8.self, capacity: count) { bytes in
                let bytes = unsafe UnsafeBufferPointer(start: bytes, count: count)
                unsafe ClientCallbacks.state(userData).pointee.noteMessage(bytes, isNotHTTP2: isNotHTTP2)
            }
            return 0
        }
        return unsafe callbacks
    }

    /// Where the library asks how much of the body comes next; the bytes themselves are written by the send-data callback.
    static let bodyCallback: nghttp2_data_source_read_callback = { _, _, _, room, flags, source, _ in
        guard let slot = unsafe source?.pointee.ptr?.assumingMemoryBound(to: ClientSlot.self) else {
            return Int(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue)
        }
        let left = unsafe slot.pointee.bodyCount - slot.pointee.bodySent
        let count = min(left, room)
        let isLast = count == left
        unsafe flags?.pointee =
            isLast
            ? NGHTTP2_DATA_FLAG_NO_COPY.rawValue | NGHTTP2_DATA_FLAG_EOF.rawValue : NGHTTP2_DATA_FLAG_NO_COPY.rawValue
        return count
    }

    @inline(__always)
    private static func state(_ userData: UnsafeMutableRawPointer?) -> UnsafeMutablePointer<ClientState> {
        guard let userData = unsafe userData else { preconditionFailure("nghttp2 lost its user data") }
        return unsafe userData.assumingMemoryBound(to: ClientState.self)
    }

    /// The slot of a stream; nil for streams that are not ours or over.
    @inline(__always)
    private static func slot(_ session: OpaquePointer?, _ streamID: Int32) -> UnsafeMutablePointer<ClientSlot>? {
        guard streamID > 0 else { return nil }
        let data = unsafe nghttp2_session_get_stream_user_data(session, streamID)
        return unsafe data?.assumingMemoryBound(to: ClientSlot.self)
    }

    @inline(__always)
    private static func frameReceived(
        _ session: OpaquePointer?,
        _ frame: UnsafePointer<nghttp2_frame>,
        _ state: UnsafeMutablePointer<ClientState>,
    ) -> Int32 {
        let header = unsafe frame.pointee.hd
        let isStreamEnd = header.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0
        let isAcknowledgement = header.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) != 0
        switch UInt32(header.type) {
        case NGHTTP2_HEADERS.rawValue:
            unsafe state.pointee.headersEnded(isStreamEnd: isStreamEnd)
            return 0
        case NGHTTP2_DATA.rawValue:
            if isStreamEnd, let slot = unsafe slot(session, header.stream_id) {
                unsafe state.pointee.answerEnded(slot)
                return 0
            }
            if header.length > 0 { return 0 }
        case NGHTTP2_SETTINGS.rawValue where !isAcknowledgement:
            let streamsMax = unsafe nghttp2_session_get_remote_settings(
                session,
                NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
            )
            unsafe state.pointee.settingsReceived(streamsMax: streamsMax)
        case NGHTTP2_PING.rawValue where isAcknowledgement:
            unsafe state.pointee.pingAcknowledged()
        case NGHTTP2_GOAWAY.rawValue:
            let goAway = unsafe frame.pointee.goaway
            let debug = unsafe UnsafeBufferPointer(
                start: UnsafePointer(goAway.opaque_data),
                count: goAway.opaque_data_len
            )
            let isKept = unsafe state.pointee.goAwayReceived(
                code: goAway.error_code,
                lastStreamID: goAway.last_stream_id,
                debug: debug,
            )
            if !isKept { return self.failure }
        default:
            break
        }
        return unsafe state.pointee.controlFrameReceived() ? 0 : self.failure
    }
}
