/// The part of a request that is the same for every device: one per rendered variant of a message.
///
/// Immutable and shared: a session borrows its bytes until the request is on the wire and copies them once per device, into the output.
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
        /// Raw bytes, written as lower-case hexadecimal digits.
        case hexadecimal
        /// As it is: `[A-Za-z0-9_:.~-]` only, which is safe in a path and inside a JSON string.
        case text
    }

    /// The body.
    package enum Body: Hashable, Sendable {
        /// None: the stream ends with the headers.
        case none
        /// The same for every device.
        case shared([UInt8])
        /// Bytes with holes that are filled for each device.
        case pieces([Piece])
    }

    /// A piece of a body.
    package enum Piece: Hashable, Sendable {
        /// The same for every device.
        case bytes([UInt8])
        /// The token as text.
        case token
        /// The request's number, in decimal digits.
        case number
    }

    /// Digits of the largest number.
    package static let numberDigitsMax = 10

    /// What stands between the body's first hole and its last, both included.
    enum MiddlePiece {
        case bytes(ByteRun)
        case token
        case number
    }

    /// No other template has it.
    let serial = Serial.next()
    private nonisolated(unsafe) let memory: UnsafeMutablePointer<UInt8>
    /// The header list without what differs per request: pseudo headers first, `:path` last of them unless it has a token.
    let headers: [HPACKTable.Field]
    /// Where in ``headers`` a path with a token belongs; otherwise where the pseudo headers end.
    let headersBeforePath: Int
    /// How the token is written in the path; nil when the path is constant.
    let pathForm: TokenForm?
    /// Bytes that the middle of the body takes at most, without its tokens.
    let bodyMiddleBytesMax: Int
    /// How often the token stands in the body.
    let bodyTokens: Int
    nonisolated(unsafe) let pathPrefix: ByteRun
    /// What stands before the body's first hole: all of it when there is none.
    nonisolated(unsafe) let bodyPrefix: ByteRun
    private nonisolated(unsafe) let bodyMiddle: UnsafeMutableBufferPointer<MiddlePiece>
    nonisolated(unsafe) let bodySuffix: ByteRun

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
        let parts = BodyParts(body)
        self.bodyTokens = parts.middle.count { $0 == .token }
        self.bodyMiddleBytesMax = parts.middle.reduce(0) { $0 + $1.bytesMax }
        // A body without a hole is held to the same limit, so that a hole more does not make it too large.
        let bytesMax = parts.front.count + self.bodyMiddleBytesMax + parts.back.count
        guard bytesMax + max(1, self.bodyTokens) * HTTP2Limits.tokenBytesMax <= HTTP2Limits.requestBodyBytesMax else {
            throw HTTP2Error(.bodyTooLarge, "more than \(HTTP2Limits.requestBodyBytesMax) bytes")
        }

        var fields = [.post, .https, HPACKTable.Field(":authority", authority)]
        if self.pathForm == nil { fields.append(HPACKTable.Field(":path", prefix)) }
        self.headersBeforePath = fields.count
        for header in headers { fields.append(HPACKTable.Field(header.name, header.value.text)) }
        self.headers = fields
        unsafe self.memory = .allocate(capacity: bytesMax + prefix.utf8.count)
        var cursor = unsafe self.memory
        func place(_ bytes: Span<UInt8>) -> ByteRun {
            let start = unsafe cursor
            unsafe bytes.copy(to: &cursor)
            return unsafe ByteRun(start: start, count: bytes.count)
        }
        unsafe self.pathPrefix = place(prefix.utf8.span)
        unsafe self.bodyPrefix = place(parts.front.span)
        unsafe self.bodyMiddle = .allocate(capacity: parts.middle.count)
        for (index, piece) in parts.middle.enumerated() {
            switch piece {
            case .bytes(let bytes): unsafe self.bodyMiddle.initializeElement(at: index, to: .bytes(place(bytes.span)))
            case .token: unsafe self.bodyMiddle.initializeElement(at: index, to: .token)
            case .number: unsafe self.bodyMiddle.initializeElement(at: index, to: .number)
            }
        }
        unsafe self.bodySuffix = place(parts.back.span)
    }

    deinit {
        unsafe self.bodyMiddle.deallocate()
        unsafe self.memory.deallocate()
    }

    /// Writes the middle of the body; there must be room for `bodyMiddleBytesMax` and each of the tokens.
    @inline(__always)
    func writeBodyMiddle(token: Span<UInt8>, number: UInt32, to cursor: inout UnsafeMutablePointer<UInt8>) {
        for index in unsafe self.bodyMiddle.indices {
            switch unsafe self.bodyMiddle[index] {
            case .bytes(let segment):
                unsafe cursor.update(from: segment.start, count: segment.count)
                unsafe cursor += segment.count
            case .token: unsafe token.copy(to: &cursor)
            case .number: unsafe number.writeDigits(to: &cursor)
            }
        }
    }

    /// Whether that token may stand where the template puts it.
    func accepts(_ token: Span<UInt8>) -> Bool {
        let needsText = self.bodyTokens > 0 || self.pathForm == .text
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

/// Cuts a body at its first and last hole.
private struct BodyParts {
    var front: [UInt8] = []
    var middle: [RequestTemplate.Piece] = []
    var back: [UInt8] = []

    init(_ body: RequestTemplate.Body) {
        switch body {
        case .none: return
        case .shared(let bytes): self.front = bytes
        case .pieces(let pieces):
            self.middle = pieces
            while case .bytes(let bytes)? = self.middle.first {
                self.front += bytes
                self.middle.removeFirst()
            }
            while case .bytes(let bytes)? = self.middle.last {
                self.back = bytes + self.back
                self.middle.removeLast()
            }
        }
    }
}

extension RequestTemplate.Piece {
    /// Bytes that it takes at most; a token's come with each request.
    fileprivate var bytesMax: Int {
        switch self {
        case .bytes(let bytes): bytes.count
        case .token: 0
        case .number: RequestTemplate.numberDigitsMax
        }
    }
}

extension Span<UInt8> {
    /// Copies all of it and moves the cursor behind it.
    @inline(__always)
    func copy(to cursor: inout UnsafeMutablePointer<UInt8>) {
        unsafe self.withUnsafeBufferPointer { bytes in
            guard let base = bytes.baseAddress else { return }
            unsafe cursor.update(from: base, count: bytes.count)
        }
        unsafe cursor += self.count
    }
}

extension Span<UInt8> {
    /// Writes all of it in lower-case hexadecimal digits and moves the cursor behind them.
    @inline(__always)
    func writeHexadecimal(to cursor: inout UnsafeMutablePointer<UInt8>) {
        unsafe self.withUnsafeBufferPointer { bytes in
            guard var start = bytes.baseAddress else { return }
            let end = unsafe start + bytes.count
            while unsafe end - start >= 4 {
                let digits = unsafe hexadecimalDigits(start.bigEndian32(at: 0))
                unsafe UnsafeMutableRawPointer(cursor).storeBytes(of: digits, as: UInt64.self)
                unsafe start += 4
                unsafe cursor += 8
            }
            while unsafe start < end {
                unsafe cursor[0] = hexadecimalDigit(start.pointee >> 4)
                unsafe cursor[1] = hexadecimalDigit(start.pointee & 0x0f)
                unsafe start += 1
                unsafe cursor += 2
            }
        }
    }
}

extension UInt32 {
    /// Writes it in decimal digits, at most ``RequestTemplate/numberDigitsMax``, and moves the cursor behind them.
    @inline(__always)
    fileprivate func writeDigits(to cursor: inout UnsafeMutablePointer<UInt8>) {
        var unit: UInt32 = 1
        while self / unit >= 10 { unit *= 10 }
        while unit > 0 {
            unsafe cursor.pointee = 0x30 + UInt8(truncatingIfNeeded: self / unit % 10)
            unsafe cursor += 1
            unit /= 10
        }
    }
}

/// `[A-Za-z0-9_:.~-]`.
@inline(__always)
private func isTokenByte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x61...0x7a, 0x41...0x5a, 0x30...0x3a, 0x5f, 0x2d, 0x2e, 0x7e: true
    default: false
    }
}
