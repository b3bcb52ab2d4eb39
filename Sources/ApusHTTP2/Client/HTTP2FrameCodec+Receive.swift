extension HTTP2FrameCodec {
    /// Reads frames; an incomplete one waits for the rest.
    @unsafe
    mutating func receive(_ bytes: UnsafeBufferPointer<UInt8>) throws(ConnectionError) {
        guard var start = bytes.baseAddress else { return }
        let end = unsafe start + bytes.count
        while self.rest.count > 0 {
            let wanted = try self.restWanted()
            let count = unsafe min(wanted - self.rest.count, end - start)
            unsafe self.rest.append(start, count: count)
            unsafe start += count
            guard self.rest.count == wanted else { return }
            guard wanted == HTTP2Frame.headerBytes, try self.restWanted() > wanted else {
                try self.takeRest()
                break
            }
        }
        while unsafe end - start >= HTTP2Frame.headerBytes {
            let frame = unsafe HTTP2Frame(start)
            try self.checkHeader(frame)
            guard unsafe end - start >= HTTP2Frame.headerBytes + frame.length else { break }
            let payload = unsafe UnsafeBufferPointer(start: start + HTTP2Frame.headerBytes, count: frame.length)
            unsafe start += HTTP2Frame.headerBytes + frame.length
            try unsafe self.take(frame, payload)
        }
        if unsafe end > start { unsafe self.rest.append(start, count: end - start) }
    }

    /// Returns the size of the incomplete frame, as far as its length is known.
    private func restWanted() throws(ConnectionError) -> Int {
        guard let start = unsafe self.rest.start, self.rest.count >= HTTP2Frame.headerBytes else {
            return HTTP2Frame.headerBytes
        }
        let frame = unsafe HTTP2Frame(start)
        try self.checkHeader(frame)
        return HTTP2Frame.headerBytes + frame.length
    }

    private mutating func takeRest() throws(ConnectionError) {
        guard let start = unsafe self.rest.start else { return }
        let frame = unsafe HTTP2Frame(start)
        let payload = unsafe UnsafeBufferPointer(start: start + HTTP2Frame.headerBytes, count: frame.length)
        try unsafe self.take(frame, payload)
        self.rest.clear(keeping: HTTP2Limits.pendingBytesKept)
    }

    /// Checks a frame by its header, before it is complete.
    @inline(__always)
    private func checkHeader(_ frame: HTTP2Frame) throws(ConnectionError) {
        if !self.isBegun {
            guard frame.kind == HTTP2Frame.Kind.settings, !frame.has(HTTP2Frame.Flags.acknowledgement),
                frame.streamID == 0,
                frame.length <= HTTP2Frame.payloadBytesMax
            else { throw ConnectionError(code: .protocolError, reason: .notHTTP2) }
        }
        guard frame.length <= HTTP2Frame.payloadBytesMax else {
            throw .violation(.frameSizeError, "a frame exceeds our maximum size")
        }
    }

    // MARK: Frames

    @unsafe @inline(__always)
    private mutating func take(_ frame: HTTP2Frame, _ payload: UnsafeBufferPointer<UInt8>) throws(ConnectionError) {
        if self.reader.block == nil {
            switch frame.kind {
            case HTTP2Frame.Kind.headers: return try unsafe self.takeHeaders(frame, payload)
            case HTTP2Frame.Kind.data: return try unsafe self.takeData(frame, payload)
            default: break
            }
        }
        try unsafe self.takeRare(frame, payload)
    }

    @inline(never)
    private mutating func takeRare(_ frame: HTTP2Frame, _ payload: UnsafeBufferPointer<UInt8>) throws(ConnectionError) {
        if self.reader.block != nil {
            guard frame.kind == HTTP2Frame.Kind.continuation else {
                throw .violation(.protocolError, "a header block is not complete")
            }
            return try unsafe self.takeContinuation(frame, payload)
        }
        switch frame.kind {
        case HTTP2Frame.Kind.reset: try unsafe self.takeReset(frame, payload)
        case HTTP2Frame.Kind.settings: try unsafe self.takeSettings(frame, payload)
        case HTTP2Frame.Kind.ping: try unsafe self.takePing(frame, payload)
        case HTTP2Frame.Kind.goAway: try unsafe self.takeGoAway(frame, payload)
        case HTTP2Frame.Kind.windowUpdate: try unsafe self.takeWindowUpdate(frame, payload)
        case HTTP2Frame.Kind.pushPromise: throw .violation(.protocolError, "PUSH_PROMISE: push is off")
        case HTTP2Frame.Kind.continuation: throw .violation(.protocolError, "CONTINUATION: no header block")
        // These are PRIORITY and unknown frames.
        default: break
        }
        try self.countControlFrame()
    }

    @inline(__always)
    private func countControlFrame() throws(ConnectionError) {
        guard unsafe self.state.pointee.controlFrameReceived() else { throw .limit }
    }

    // MARK: Answers

    @unsafe @inline(__always)
    private mutating func takeHeaders(
        _ frame: HTTP2Frame,
        _ payload: UnsafeBufferPointer<UInt8>
    ) throws(ConnectionError) {
        guard self.wasOpened(frame.streamID) else { throw .violation(.protocolError, "HEADERS: no such stream") }
        let isStreamEnd = frame.has(HTTP2Frame.Flags.endStream)
        // ":status: 200" alone is entry 8 of the static table, whatever the tables hold: most answers are like this.
        let isPlainest = unsafe payload.count == 1 && payload[0] == 0x88
        if isPlainest,
            frame.flags | HTTP2Frame.Flags.endStream == HTTP2Frame.Flags.endStream | HTTP2Frame.Flags.endHeaders,
            let slot = unsafe self.slot(frame.streamID), unsafe !slot.pointee.isHeaderComplete
        {
            unsafe slot.pointee.status = 200
            unsafe slot.pointee.isHeaderComplete = true
            if isStreamEnd { unsafe self.answerEnded(slot) }
            return
        }
        try unsafe self.takeHeaderBlock(frame, payload, isStreamEnd)
    }

    @inline(never)
    private mutating func takeHeaderBlock(
        _ frame: HTTP2Frame,
        _ payload: UnsafeBufferPointer<UInt8>,
        _ isStreamEnd: Bool
    ) throws(ConnectionError) {
        guard var fragment = unsafe Self.withoutPadding(frame, payload) else {
            throw .violation(.protocolError, "HEADERS: too much padding")
        }
        if frame.has(HTTP2Frame.Flags.priority) {
            guard fragment.count >= 5 else { throw .violation(.frameSizeError, "HEADERS: too short") }
            unsafe fragment = UnsafeBufferPointer(rebasing: fragment.dropFirst(5))
        }
        let slot = unsafe self.slot(frame.streamID)
        unsafe self.state.pointee.headersBegan(slot)
        self.reader.check = HeaderCheck(isTrailers: unsafe slot?.pointee.isHeaderComplete ?? false)
        let isLast = frame.has(HTTP2Frame.Flags.endHeaders)
        try unsafe self.reader.inflate(fragment, isLast: isLast, self.state)
        if isLast {
            try self.headersEnded(frame.streamID, isStreamEnd)
        } else {
            self.reader.block = HeaderBlockReader.Block(streamID: frame.streamID, isStreamEnd: isStreamEnd)
        }
    }

    @unsafe
    private mutating func takeContinuation(
        _ frame: HTTP2Frame,
        _ payload: UnsafeBufferPointer<UInt8>
    ) throws(ConnectionError) {
        guard var block = self.reader.block, block.streamID == frame.streamID else {
            throw .violation(.protocolError, "CONTINUATION: on another stream")
        }
        block.continuations += 1
        guard block.continuations <= HTTP2Limits.continuationsMax else {
            throw ConnectionError(code: .enhanceYourCalm, reason: .limitExceeded(.continuations))
        }
        unsafe self.state.pointee.headersContinue(self.slot(block.streamID))
        let isLast = frame.has(HTTP2Frame.Flags.endHeaders)
        try unsafe self.reader.inflate(payload, isLast: isLast, self.state)
        self.reader.block = isLast ? nil : block
        if isLast { try self.headersEnded(block.streamID, block.isStreamEnd) }
    }

    /// Ends a header block: of the answer, of an interim answer, or of trailers.
    private mutating func headersEnded(_ streamID: UInt32, _ isStreamEnd: Bool) throws(ConnectionError) {
        guard let slot = unsafe self.slot(streamID) else { return try self.countControlFrame() }
        let check = self.reader.check
        let isTrailers = unsafe slot.pointee.isHeaderComplete
        let isInterim = !isTrailers && check.status < 200
        // Trailers end a stream, interim answers never do, and an answer needs a status.
        guard !check.isMalformed, isTrailers ? isStreamEnd : check.status > 0 && !(isInterim && isStreamEnd) else {
            return unsafe self.reset(slot, .protocolError)
        }
        if isInterim { return try self.countControlFrame() }
        if !isTrailers {
            unsafe slot.pointee.isHeaderComplete = true
            // These have no body, whatever length they announce (RFC 9110 §6.4.1).
            let isBodiless = check.status == 204 || check.status == 304
            unsafe slot.pointee.stream.contentLength = isBodiless ? 0 : check.contentLength
        }
        if isStreamEnd { unsafe self.bodyEnded(slot) }
    }

    @unsafe @inline(__always)
    private mutating func takeData(_ frame: HTTP2Frame, _ payload: UnsafeBufferPointer<UInt8>) throws(ConnectionError) {
        guard self.wasOpened(frame.streamID) else { throw .violation(.protocolError, "DATA: no such stream") }
        try self.countData(payload.count)
        guard let body = unsafe Self.withoutPadding(frame, payload) else {
            throw .violation(.protocolError, "DATA: too much padding")
        }
        let isStreamEnd = frame.has(HTTP2Frame.Flags.endStream)
        if body.isEmpty, !isStreamEnd { try self.countControlFrame() }
        guard let slot = unsafe self.slot(frame.streamID) else { return }
        guard unsafe self.countData(slot, payload.count) else { return unsafe self.reset(slot, .flowControlError) }
        guard unsafe slot.pointee.isHeaderComplete else { return unsafe self.reset(slot, .protocolError) }
        unsafe slot.pointee.stream.bodyReceived += body.count
        unsafe self.state.pointee.bodyReceived(slot, body)
        if isStreamEnd { unsafe self.bodyEnded(slot) } else { unsafe self.returnData(slot) }
    }

    /// Ends a body. A length other than the announced one makes the answer malformed (RFC 9113 §8.1.1).
    @unsafe @inline(__always)
    private mutating func bodyEnded(_ slot: UnsafeMutablePointer<ClientSlot>) {
        let announced = unsafe slot.pointee.stream.contentLength
        guard unsafe announced < 0 || announced == slot.pointee.stream.bodyReceived else {
            return unsafe self.reset(slot, .protocolError)
        }
        unsafe self.answerEnded(slot)
    }

    /// Removes the padding from DATA and HEADERS (RFC 9113 §6.1, §6.2); returns nil when there is more padding than payload.
    @unsafe @inline(__always)
    private static func withoutPadding(
        _ frame: HTTP2Frame,
        _ payload: UnsafeBufferPointer<UInt8>
    ) -> UnsafeBufferPointer<UInt8>? {
        guard frame.has(HTTP2Frame.Flags.padded) else { return unsafe payload }
        guard let count = unsafe payload.first, 1 + Int(count) <= payload.count else { return nil }
        return unsafe UnsafeBufferPointer(rebasing: payload[1..<payload.count - Int(count)])
    }

    // MARK: Control frames

    @unsafe
    private mutating func takeReset(_ frame: HTTP2Frame, _ payload: UnsafeBufferPointer<UInt8>) throws(ConnectionError)
    {
        guard payload.count == 4, let start = payload.baseAddress else {
            throw .violation(.frameSizeError, "RST_STREAM: not four bytes")
        }
        guard self.wasOpened(frame.streamID) else { throw .violation(.protocolError, "RST_STREAM: no such stream") }
        guard let slot = unsafe self.slot(frame.streamID) else { return }
        unsafe self.close(slot, code: start.bigEndian32(at: 0))
    }

    @unsafe
    private mutating func takeSettings(
        _ frame: HTTP2Frame,
        _ payload: UnsafeBufferPointer<UInt8>
    ) throws(ConnectionError) {
        guard frame.streamID == 0 else { throw .violation(.protocolError, "SETTINGS: on a stream") }
        if frame.has(HTTP2Frame.Flags.acknowledgement) {
            guard payload.isEmpty else { throw .violation(.frameSizeError, "SETTINGS: a long acknowledgement") }
            return self.ourSettingsAcknowledged()
        }
        guard payload.count.isMultiple(of: 6) else { throw .violation(.frameSizeError, "SETTINGS: half an entry") }
        guard payload.count / 6 <= HTTP2Limits.settingsEntriesMax else {
            throw ConnectionError(code: .enhanceYourCalm, reason: .limitExceeded(.settingsEntries))
        }
        // A peer that sets no limit allows any number.
        var streamsMax = self.isBegun ? unsafe self.state.pointee.peerStreamsMax : UInt32.max
        self.isBegun = true
        for offset in stride(from: 0, to: payload.count, by: 6) {
            guard let start = payload.baseAddress else { break }
            let setting = unsafe UInt16(start[offset]) << 8 | UInt16(start[offset + 1])
            let value = unsafe start.bigEndian32(at: offset + 2)
            switch setting {
            case HTTP2Frame.Setting.headerTableSize: self.peerAllows(tableBytes: value)
            case HTTP2Frame.Setting.maxConcurrentStreams: streamsMax = value
            case HTTP2Frame.Setting.initialWindowSize:
                guard value <= HTTP2Frame.windowMax else {
                    throw .violation(.flowControlError, "SETTINGS: INITIAL_WINDOW_SIZE is too large")
                }
                try self.setInitialWindow(Int(value))
            case HTTP2Frame.Setting.maxFrameSize:
                guard (0x4000...0xff_ffff).contains(value) else {
                    throw .violation(.protocolError, "SETTINGS: MAX_FRAME_SIZE is out of range")
                }
            case HTTP2Frame.Setting.enablePush:
                guard value == 0 else { throw .violation(.protocolError, "SETTINGS: a server enables no push") }
            default: break
            }
        }
        unsafe self.state.pointee.settingsReceived(streamsMax: streamsMax)
        try unsafe self.acknowledge(HTTP2Frame.Kind.settings, nil)
    }

    @unsafe
    private mutating func takePing(_ frame: HTTP2Frame, _ payload: UnsafeBufferPointer<UInt8>) throws(ConnectionError) {
        guard frame.streamID == 0 else { throw .violation(.protocolError, "PING: on a stream") }
        guard payload.count == 8 else { throw .violation(.frameSizeError, "PING: not eight bytes") }
        if frame.has(HTTP2Frame.Flags.acknowledgement) {
            unsafe self.state.pointee.pingAcknowledged()
        } else {
            try unsafe self.acknowledge(HTTP2Frame.Kind.ping, payload)
        }
    }

    @unsafe
    private mutating func takeGoAway(_ frame: HTTP2Frame, _ payload: UnsafeBufferPointer<UInt8>) throws(ConnectionError)
    {
        guard frame.streamID == 0 else { throw .violation(.protocolError, "GOAWAY: on a stream") }
        guard payload.count >= 8, let start = payload.baseAddress else {
            throw .violation(.frameSizeError, "GOAWAY: too short")
        }
        let last = unsafe start.bigEndian32(at: 0) & 0x7fff_ffff
        let isKept = unsafe self.state.pointee.goAwayReceived(
            code: start.bigEndian32(at: 4),
            lastStreamID: Int32(bitPattern: last),
            debug: UnsafeBufferPointer(rebasing: payload.dropFirst(8)),
        )
        guard isKept else { throw .limit }
        try self.refuse(above: last)
    }

    @unsafe
    private mutating func takeWindowUpdate(
        _ frame: HTTP2Frame,
        _ payload: UnsafeBufferPointer<UInt8>
    ) throws(ConnectionError) {
        guard payload.count == 4, let start = payload.baseAddress else {
            throw .violation(.frameSizeError, "WINDOW_UPDATE: not four bytes")
        }
        guard frame.streamID == 0 || self.wasOpened(frame.streamID) else {
            throw .violation(.protocolError, "WINDOW_UPDATE: no such stream")
        }
        try self.widen(streamID: frame.streamID, by: unsafe Int(start.bigEndian32(at: 0) & 0x7fff_ffff))
    }
}
