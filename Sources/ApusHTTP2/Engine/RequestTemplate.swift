internal import CNghttp2

/// Everything of a request that does not change from device to device: one per rendered variant.
///
/// Immutable and shared: a session borrows its bytes until the request is on the wire and never copies a segment of it
/// per device, except once, into the output.
@safe package final class RequestTemplate: Sendable {
    /// Where the token stands in the path.
    package enum Path: Hashable, Sendable {
        /// No token.
        case constant(String)
        /// `prefix` and then the token.
        case token(prefix: String, form: TokenForm)
    }

    /// How a token is written.
    package enum TokenForm: Hashable, Sendable {
        /// Raw bytes, written as lower-case hexadecimal digits (APNs).
        case hexadecimal
        /// As it is: `[A-Za-z0-9_:.~-]` only, which is safe in a path and inside a JSON string (FCM).
        case text
    }

    /// The body.
    package enum Body: Hashable, Sendable {
        /// None: the stream ends with the headers.
        case none
        /// The same for every device.
        case shared([UInt8])
        /// `prefix`, the token as text, `suffix`.
        case token(prefix: [UInt8], suffix: [UInt8])
    }

    /// A run of bytes inside the template's memory.
    @safe struct Segment {
        let start: UnsafeMutablePointer<UInt8>
        let count: Int
    }

    /// Where `:path` stands among ``fields``.
    static let pathIndex = 3

    private nonisolated(unsafe) let memory: UnsafeMutablePointer<UInt8>
    /// The header list, in order; with a token in the path, the value at ``pathIndex`` is left for the session.
    nonisolated(unsafe) let fields: UnsafeMutablePointer<nghttp2_nv>
    let fieldCount: Int
    /// nil: the path is constant.
    let pathForm: TokenForm?
    let bodyHasToken: Bool
    nonisolated(unsafe) let pathPrefix: Segment
    nonisolated(unsafe) let bodyPrefix: Segment
    nonisolated(unsafe) let bodySuffix: Segment

    /// A template of `POST https://authority/path`.
    ///
    /// - Parameters:
    ///   - authority: host, or host and port.
    ///   - headers: the constant ones, at most ``HTTP2Limits/headersMax``, without `authorization` and `apns-id`, which
    ///     come with each request.
    package init(authority: String, path: Path, headers: [HeaderField], body: Body) throws(HTTP2Error) {
        try checkAuthority(authority)
        try checkHeaders(headers, reserved: ["authorization", "apns-id"])
        let prefix: String
        switch path {
        case .constant(let text):
            prefix = text
            self.pathForm = nil
        case .token(let text, let form):
            prefix = text
            self.pathForm = form
        }
        try checkPath(prefix)
        var front: [UInt8] = []
        var back: [UInt8] = []
        switch body {
        case .none: self.bodyHasToken = false
        case .shared(let bytes):
            front = bytes
            self.bodyHasToken = false
        case .token(let prefix, let suffix):
            front = prefix
            back = suffix
            self.bodyHasToken = true
        }
        guard front.count + back.count + HTTP2Limits.tokenBytesMax <= HTTP2Limits.requestBodyBytesMax else {
            throw HTTP2Error(.bodyTooLarge, "more than \(HTTP2Limits.requestBodyBytesMax) bytes")
        }

        var texts: [(String, String)] = [
            (":method", "POST"), (":scheme", "https"), (":authority", authority), (":path", prefix),
        ]
        for header in headers { texts.append((header.name, header.value.text)) }
        let bytes = texts.reduce(front.count + back.count) { $0 + $1.0.utf8.count + $1.1.utf8.count }
        unsafe self.memory = .allocate(capacity: max(bytes, 1))
        unsafe self.fields = .allocate(capacity: texts.count)
        self.fieldCount = texts.count
        var cursor = unsafe self.memory
        func place(_ bytes: some Collection<UInt8>) -> Segment {
            let start = unsafe cursor
            for byte in bytes {
                unsafe cursor.pointee = byte
                unsafe cursor += 1
            }
            return unsafe Segment(start: start, count: bytes.count)
        }
        for (index, text) in texts.enumerated() {
            let name = place(text.0.utf8)
            let value = place(text.1.utf8)
            unsafe (self.fields + index).initialize(to: nghttp2_nv(borrowing: name, value))
        }
        let pathField = unsafe self.fields[Self.pathIndex]
        unsafe self.pathPrefix = Segment(start: pathField.value, count: pathField.valuelen)
        unsafe self.bodyPrefix = place(front)
        unsafe self.bodySuffix = place(back)
    }

    deinit {
        unsafe self.fields.deallocate()
        unsafe self.memory.deallocate()
    }

    /// Whether that token may stand where the template puts it.
    func accepts(_ token: Span<UInt8>) -> Bool {
        let needsText = self.bodyHasToken || self.pathForm == .text
        guard needsText || self.pathForm != nil else { return true }
        guard (1...HTTP2Limits.tokenBytesMax).contains(token.count) else { return false }
        if let form = self.pathForm {
            let written = form == .hexadecimal ? token.count * 2 : token.count
            guard unsafe self.pathPrefix.count + written <= HTTP2Limits.pathBytesMax else { return false }
        }
        guard needsText else { return true }
        var dots = 0
        for index in token.indices {
            guard isTokenByte(token[index]) else { return false }
            if token[index] == 0x2e { dots += 1 }
        }
        // A segment of dots alone would walk up the path.
        return dots < token.count
    }
}

extension nghttp2_nv {
    /// A pair whose bytes stay where they are: nghttp2 copies neither.
    @inline(__always)
    init(borrowing name: RequestTemplate.Segment, _ value: RequestTemplate.Segment, flags: UInt8 = 0) {
        unsafe self.init(
            name: name.start,
            value: value.start,
            namelen: name.count,
            valuelen: value.count,
            flags: flags | Self.borrowed,
        )
    }

    static let borrowed = UInt8(NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue)
}

/// `[A-Za-z0-9_:.~-]`.
@inline(__always)
private func isTokenByte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x61...0x7a, 0x41...0x5a, 0x30...0x3a, 0x5f, 0x2d, 0x2e, 0x7e: true
    default: false
    }
}
