/// The part of a request that is the same for every device: one per rendered variant of a message.
///
/// It is immutable and shared: a session borrows its bytes until the request is sent and copies them once per device, into the output.
@safe package final class RequestTemplate: Sendable {
    /// The position of the token in the path.
    package enum Path: Hashable, Sendable {
        /// There is no token in the path.
        case constant(String)
        /// The token follows `prefix`.
        case token(prefix: String, form: TokenForm)
    }

    /// The forms of a token.
    package enum TokenForm: Hashable, Sendable {
        /// Raw bytes, written as lower-case hexadecimal digits.
        case hexadecimal
        /// The text itself: `[A-Za-z0-9_:.~-]` only, which is safe in a path.
        case text
    }

    /// The body of a request.
    package enum Body: Hashable, Sendable {
        /// There is no body: the stream ends with the headers.
        case none
        /// The body is the same for every device.
        case shared([UInt8])
        /// The body has gaps that are filled for each device.
        case pieces([Piece])
    }

    /// A piece of a body.
    package enum Piece: Hashable, Sendable {
        /// Bytes that are the same for every device.
        case bytes([UInt8])
        /// The token as text: printable ASCII without spaces, quotation marks and backslashes, which is safe inside a JSON string.
        case token
        /// The request's number, in decimal digits.
        case number
    }

    /// The number of digits of the largest number.
    package static let numberDigitsMax = 10

    /// A piece between the body's first gap and its last, both included.
    enum MiddlePiece {
        case bytes(ByteRun)
        case token
        case number
    }

    /// A number that no other template has.
    let serial = Serial.next()
    private nonisolated(unsafe) let memory: UnsafeMutablePointer<UInt8>
    /// The constant part of the header list: pseudo headers first, `:path` last of them unless it has a token.
    let headers: [HPACKTable.Field]
    /// The index in ``headers`` for a path with a token; otherwise the end of the pseudo headers.
    let headersBeforePath: Int
    /// The form of the token in the path; nil when the path is constant.
    let pathForm: TokenForm?
    /// The maximum bytes of the middle of the body, without its tokens.
    let bodyMiddleBytesMax: Int
    /// The number of tokens in the body.
    let bodyTokens: Int
    nonisolated(unsafe) let pathPrefix: ByteRun
    /// The bytes before the body's first gap: all of it when there is none.
    nonisolated(unsafe) let bodyPrefix: ByteRun
    private nonisolated(unsafe) let bodyMiddle: UnsafeMutableBufferPointer<MiddlePiece>
    nonisolated(unsafe) let bodySuffix: ByteRun

    /// Creates a template of `POST https://authority/path`.
    ///
    /// - Parameters:
    ///   - authority: the host, or host and port.
    ///   - headers: the constant headers, at most ``HTTP2Limits/headersMax``, without `authorization` and the
    ///     request's id, which are set for each request.
    package init(authority: String, path: Path, headers: [HeaderField], body: Body) throws(HTTP2Error) {
        try checkAuthority(authority)
        try checkHeaders(headers, reserved: ["authorization", RequestID.headerName])
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
        // A body without a gap has the same limit, so that another gap does not make it too large.
        let bytesMax = parts.front.count + self.bodyMiddleBytesMax + parts.back.count
        guard bytesMax + max(1, self.bodyTokens) * HTTP2Limits.tokenBytesMax <= HTTP2Limits.requestBodyBytesMax else {
            throw HTTP2Error(.bodyTooLarge, "more than \(HTTP2Limits.requestBodyBytesMax) bytes")
        }

        var fields = [.post, .https, HPACKTable.Field(":authority", authority)]
        if self.pathForm == nil { fields.append(HPACKTable.Field(":path", prefix)) }
        self.headersBeforePath = fields.count
        for header in headers { fields.append(header.field) }
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

    /// Returns true when the token is allowed at its place in the template.
    func accepts(_ token: Span<UInt8>) -> Bool {
        let needsText = self.bodyTokens > 0 || self.pathForm == .text
        guard needsText || self.pathForm != nil else { return true }
        guard (1...HTTP2Limits.tokenBytesMax).contains(token.count) else { return false }
        if let form = self.pathForm {
            let written = form == .hexadecimal ? token.count * 2 : token.count
            guard unsafe self.pathPrefix.count + written <= HTTP2Limits.pathBytesMax else { return false }
        }
        guard needsText else { return true }
        let isInPath = self.pathForm == .text
        var dots = 0
        for index in token.indices {
            let byte = token[index]
            guard isInPath ? isPathByte(byte) : isStringByte(byte) else { return false }
            if byte == 0x2e { dots += 1 }
        }
        // A path segment of dots alone would lead to a parent.
        return !isInPath || dots < token.count
    }
}

/// Splits a body at its first and last gap.
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
    /// The maximum bytes of the piece; a token's are added with each request.
    fileprivate var bytesMax: Int {
        switch self {
        case .bytes(let bytes): bytes.count
        case .token: 0
        case .number: RequestTemplate.numberDigitsMax
        }
    }
}

extension Span<UInt8> {
    /// Copies the run and advances the cursor.
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
    /// Writes the bytes in lower-case hexadecimal digits and advances the cursor.
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
    /// Writes the number in decimal digits, at most ``RequestTemplate/numberDigitsMax``, and advances the cursor.
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

/// Returns true for `[A-Za-z0-9_:.~-]`.
@inline(__always)
private func isPathByte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x61...0x7a, 0x41...0x5a, 0x30...0x3a, 0x5f, 0x2d, 0x2e, 0x7e: true
    default: false
    }
}

/// Returns true for printable ASCII without spaces, quotation marks and backslashes.
@inline(__always)
private func isStringByte(_ byte: UInt8) -> Bool { (0x21...0x7e).contains(byte) && byte != 0x22 && byte != 0x5c }
