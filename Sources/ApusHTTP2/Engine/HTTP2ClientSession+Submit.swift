internal import CNghttp2

extension HTTP2ClientSession {
    /// Hands a request in: the path that every notification takes.
    ///
    /// - Parameters:
    ///   - template: what does not change; kept as long as the request needs it.
    ///   - authorization: the header of that name; nil: none.
    ///   - token: raw bytes or text, as the template says; ignored by templates without a token.
    ///   - id: sent as `apns-id`; nil: no such header.
    ///   - tag: comes back with the request's one event.
    ///   - deadline: when to stop waiting for the answer.
    package mutating func submit(
        _ template: RequestTemplate,
        authorization: HeaderValue?,
        token: Span<UInt8>,
        id: RequestID?,
        tag: UInt64,
        deadline: UInt64,
    ) -> HTTP2Submission {
        guard self.isOpen else { return .closed }
        guard self.inFlight < self.streamsMax else { return .full }
        guard template.accepts(token) else { return .invalidToken }
        guard let slot = unsafe self.state.pointee.takeSlot() else { return .full }
        unsafe slot.pointee.begin(tag: tag, deadline: deadline)

        let hasPath = template.pathForm != nil
        let pathBytes = hasPath ? unsafe template.pathPrefix.count + token.count * 2 : 0
        let room = pathBytes + RequestID.textBytes + (template.bodyHasToken ? token.count : 0)
        let start = unsafe slot.pointee.request.reserve(room)
        var cursor = unsafe start
        var count = template.fieldCount
        unsafe self.fields.update(from: template.fields, count: count)

        if let form = template.pathForm {
            let prefix = unsafe template.pathPrefix
            unsafe cursor.update(from: prefix.start, count: prefix.count)
            unsafe cursor += prefix.count
            switch form {
            case .hexadecimal:
                for index in token.indices {
                    unsafe cursor[0] = hexadecimalDigit(token[index] >> 4)
                    unsafe cursor[1] = hexadecimalDigit(token[index] & 0x0f)
                    unsafe cursor += 2
                }
            case .text: unsafe copy(token, to: &cursor)
            }
            unsafe self.fields[RequestTemplate.pathIndex].value = start
            unsafe self.fields[RequestTemplate.pathIndex].valuelen = cursor - start
        }
        if let id {
            unsafe id.write(to: cursor)
            let value = unsafe RequestTemplate.Segment(start: cursor, count: RequestID.textBytes)
            // Never the same twice: it would only push useful entries out of the peer's table.
            let flags = UInt8(NGHTTP2_NV_FLAG_NO_INDEX.rawValue)
            unsafe self.fields[count] = nghttp2_nv(borrowing: HeaderNames.shared.id, value, flags: flags)
            unsafe cursor += RequestID.textBytes
            count += 1
        }
        if let authorization {
            let value = unsafe RequestTemplate.Segment(start: authorization.start, count: authorization.count)
            unsafe self.fields[count] = nghttp2_nv(borrowing: HeaderNames.shared.authorization, value)
            count += 1
            unsafe slot.pointee.authorization = self.state.pointee.authorizations.lease(authorization)
        }
        unsafe slot.pointee.template = self.state.pointee.templates.lease(template)

        let prefix = unsafe template.bodyPrefix
        let suffix = unsafe template.bodySuffix
        let middle = unsafe cursor - start
        if template.bodyHasToken { unsafe copy(token, to: &cursor) }
        unsafe slot.pointee.bodyMiddle = unsafe middle..<cursor - start
        unsafe slot.pointee.bodyPrefix = UnsafeBufferPointer(start: prefix.start, count: prefix.count)
        unsafe slot.pointee.bodySuffix = UnsafeBufferPointer(start: suffix.start, count: suffix.count)
        unsafe slot.pointee.bodyCount = prefix.count + slot.pointee.bodyMiddle.count + suffix.count
        return unsafe self.send(slot, fieldCount: count)
    }

    /// Hands a request in that fits no template; copies all of it.
    package mutating func submitPlain(_ request: PlainRequest, tag: UInt64, deadline: UInt64) -> HTTP2Submission {
        guard self.isOpen else { return .closed }
        guard self.inFlight < self.streamsMax else { return .full }
        guard let slot = unsafe self.state.pointee.takeSlot() else { return .full }
        unsafe slot.pointee.begin(tag: tag, deadline: deadline)
        var texts = [
            (":method", request.method), (":scheme", "https"), (":authority", request.authority),
            (":path", request.path),
        ]
        for header in request.headers { texts.append((header.name, header.value.text)) }
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
        unsafe slot.pointee.bodyPrefix = UnsafeBufferPointer(start: nil, count: 0)
        unsafe slot.pointee.bodySuffix = UnsafeBufferPointer(start: nil, count: 0)
        unsafe slot.pointee.bodyMiddle = middle..<middle + request.body.count
        unsafe slot.pointee.bodyCount = request.body.count
        return unsafe self.send(slot, fieldCount: texts.count)
    }

    @inline(__always)
    private mutating func send(_ slot: UnsafeMutablePointer<ClientSlot>, fieldCount: Int) -> HTTP2Submission {
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
        guard streamID > 0 else {
            unsafe self.state.pointee.withdraw(slot)
            self.streamsExhausted()
            return .closed
        }
        unsafe self.state.pointee.opened(slot, streamID: streamID)
        return .submitted
    }
}

@inline(__always)
private func copy(_ token: Span<UInt8>, to cursor: inout UnsafeMutablePointer<UInt8>) {
    unsafe token.withUnsafeBufferPointer { bytes in
        guard let base = bytes.baseAddress else { return }
        unsafe cursor.update(from: base, count: bytes.count)
    }
    unsafe cursor += token.count
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
