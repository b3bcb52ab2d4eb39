internal import CNghttp2

/// The callbacks between nghttp2 and ``ServerState``: each casts, forwards and returns.
enum ServerCallbacks {
    private static let failure = Int32(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue)

    /// Creates the callbacks object, which the caller frees.
    static func make() throws(HTTP2Error) -> OpaquePointer {
        var made: OpaquePointer?
        guard unsafe nghttp2_session_callbacks_new(&made) == 0, let callbacks = unsafe made else {
            throw HTTP2Error(.outOfMemory, "nghttp2_session_callbacks_new")
        }
        unsafe nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks) { session, frame, userData in
            guard let streamID = unsafe frame?.pointee.hd.stream_id else { return 0 }
            unsafe ServerCallbacks.headersBegan(session, streamID, ServerCallbacks.state(userData))
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
            let isKept = unsafe ServerCallbacks.state(userData).pointee.headerReceived(name, value)
            return isKept ? 0 : ServerCallbacks.failure
        }
        unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks) {
            session,
            _,
            streamID,
            data,
            count,
            userData in
            guard let stream = unsafe ServerCallbacks.stream(session, streamID) else { return 0 }
            let bytes = unsafe UnsafeBufferPointer(start: data, count: count)
            if unsafe !ServerCallbacks.state(userData).pointee.bodyReceived(stream, bytes) {
                let code = HTTP2ErrorCode.enhanceYourCalm.rawValue
                unsafe nghttp2_submit_rst_stream(session, UInt8(NGHTTP2_FLAG_NONE.rawValue), streamID, code)
            }
            return 0
        }
        unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks) { session, frame, userData in
            guard let frame = unsafe frame else { return 0 }
            return unsafe ServerCallbacks.frameReceived(session, frame, ServerCallbacks.state(userData))
        }
        unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks) { session, streamID, code, userData in
            guard let stream = unsafe ServerCallbacks.stream(session, streamID) else { return 0 }
            unsafe ServerCallbacks.state(userData).pointee.streamClosed(stream, code: code)
            return 0
        }
        unsafe nghttp2_session_callbacks_set_send_data_callback(callbacks) {
            _,
            _,
            header,
            count,
            source,
            userData in
            guard let header = unsafe header,
                let stream = unsafe source?.pointee.ptr?.assumingMemoryBound(to: ServerStream.self)
            else { return ServerCallbacks.failure }
            let state = unsafe ServerCallbacks.state(userData)
            let isWritten = unsafe stream.pointee.answer.withUnsafeBufferPointer { bytes in
                let none = unsafe UnsafeBufferPointer<UInt8>(start: nil, count: 0)
                return unsafe state.pointee.output.appendFrame(
                    header: header,
                    count: count,
                    of: (bytes, none, none),
                    from: stream.pointee.answerSent,
                )
            }
            guard isWritten else { return Int32(NGHTTP2_ERR_WOULDBLOCK.rawValue) }
            unsafe stream.pointee.answerSent += count
            return 0
        }
        unsafe nghttp2_session_callbacks_set_error_callback2(callbacks) { _, code, message, count, userData in
            guard let message = unsafe message else { return 0 }
            let isNotHTTP2 =
                code == NGHTTP2_ERR_SETTINGS_EXPECTED.rawValue || code == NGHTTP2_ERR_BAD_CLIENT_MAGIC.rawValue
            unsafe message.withMemoryRebound(to: UInt8.self, capacity: count) { bytes in
                let bytes = unsafe UnsafeBufferPointer(start: bytes, count: count)
                unsafe ServerCallbacks.state(userData).pointee.noteMessage(bytes, isNotHTTP2: isNotHTTP2)
            }
            return 0
        }
        return unsafe callbacks
    }

    /// Tells the library how much of an answer's body comes next.
    static let bodyCallback: nghttp2_data_source_read_callback = { _, _, _, room, flags, source, _ in
        guard let stream = unsafe source?.pointee.ptr?.assumingMemoryBound(to: ServerStream.self) else {
            return Int(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue)
        }
        let left = unsafe stream.pointee.answer.count - stream.pointee.answerSent
        let isUnfinished = unsafe stream.pointee.isAnswerUnfinished
        guard left > 0 || !isUnfinished else { return Int(NGHTTP2_ERR_DEFERRED.rawValue) }
        let count = min(left, room)
        let last = count == left && !isUnfinished ? NGHTTP2_DATA_FLAG_EOF.rawValue : 0
        unsafe flags?.pointee = NGHTTP2_DATA_FLAG_NO_COPY.rawValue | last
        return count
    }

    /// Returns the stream's object; nil when the stream has ended.
    static func stream(_ session: OpaquePointer?, _ streamID: Int32) -> UnsafeMutablePointer<ServerStream>? {
        let data = unsafe nghttp2_session_get_stream_user_data(session, streamID)
        return unsafe data?.assumingMemoryBound(to: ServerStream.self)
    }

    private static func state(_ userData: UnsafeMutableRawPointer?) -> UnsafeMutablePointer<ServerState> {
        guard let userData = unsafe userData else { preconditionFailure("nghttp2 passed no user data") }
        return unsafe userData.assumingMemoryBound(to: ServerState.self)
    }

    private static func headersBegan(
        _ session: OpaquePointer?,
        _ streamID: Int32,
        _ state: UnsafeMutablePointer<ServerState>,
    ) {
        if let known = unsafe stream(session, streamID) {
            unsafe state.pointee.headersBegan(known)
            return
        }
        let fresh = unsafe state.pointee.takeStream(streamID)
        unsafe nghttp2_session_set_stream_user_data(session, streamID, fresh)
        unsafe state.pointee.headersBegan(fresh)
    }

    private static func frameReceived(
        _ session: OpaquePointer?,
        _ frame: UnsafePointer<nghttp2_frame>,
        _ state: UnsafeMutablePointer<ServerState>,
    ) -> Int32 {
        let header = unsafe frame.pointee.hd
        let isStreamEnd = header.flags & UInt8(NGHTTP2_FLAG_END_STREAM.rawValue) != 0
        let isAcknowledgement = header.flags & UInt8(NGHTTP2_FLAG_ACK.rawValue) != 0
        switch UInt32(header.type) {
        case NGHTTP2_HEADERS.rawValue, NGHTTP2_DATA.rawValue:
            if isStreamEnd, let stream = unsafe stream(session, header.stream_id) {
                unsafe state.pointee.requestEnded(stream)
            }
            return 0
        case NGHTTP2_SETTINGS.rawValue where isAcknowledgement:
            unsafe state.pointee.enqueue(.settingsAcknowledged)
        case NGHTTP2_PING.rawValue where isAcknowledgement:
            unsafe state.pointee.enqueue(.pingAcknowledged)
        case NGHTTP2_GOAWAY.rawValue:
            unsafe state.pointee.goAwayReceived(code: frame.pointee.goaway.error_code)
        default:
            break
        }
        return unsafe state.pointee.controlFrameReceived() ? 0 : self.failure
    }
}
