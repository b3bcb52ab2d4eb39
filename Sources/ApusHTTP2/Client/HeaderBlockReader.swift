internal import CNghttp2

/// Decodes the header blocks of answers with nghttp2's HPACK decoder, fragment by fragment.
@safe struct HeaderBlockReader: ~Copyable {
    /// A header block that continues in CONTINUATION frames.
    struct Block {
        var streamID: UInt32
        var isStreamEnd: Bool
        var continuations = 0
    }

    private let inflater: OpaquePointer
    /// The incomplete header block.
    var block: Block?
    /// The check of the current header block.
    var check = HeaderCheck(isTrailers: false)

    init() throws(HTTP2Error) {
        var made: OpaquePointer?
        guard unsafe nghttp2_hd_inflate_new(&made) == 0, let inflater = unsafe made else {
            throw HTTP2Error(.outOfMemory, "nghttp2_hd_inflate_new")
        }
        unsafe self.inflater = inflater
    }

    deinit { unsafe nghttp2_hd_inflate_del(self.inflater) }

    /// Decodes a fragment of a header block and passes each field on.
    @unsafe
    mutating func inflate(
        _ fragment: UnsafeBufferPointer<UInt8>,
        isLast: Bool,
        _ state: UnsafeMutablePointer<ClientState>
    ) throws(ConnectionError) {
        var offset = 0
        while true {
            var field = unsafe nghttp2_nv()
            var flags: Int32 = 0
            let start = unsafe fragment.baseAddress.map { unsafe $0 + offset }
            let used = unsafe nghttp2_hd_inflate_hd2(
                self.inflater,
                &field,
                &flags,
                start,
                fragment.count - offset,
                isLast ? 1 : 0
            )
            guard used >= 0 else {
                if used == Int(NGHTTP2_ERR_NOMEM.rawValue) { throw ConnectionError(code: nil, reason: .outOfMemory) }
                throw .violation(.compressionError, "header compression error")
            }
            offset += used
            let isEmitted = flags & Int32(NGHTTP2_HD_INFLATE_EMIT.rawValue) != 0
            if isEmitted {
                let name = unsafe UnsafeBufferPointer(start: UnsafePointer(field.name), count: field.namelen)
                let value = unsafe UnsafeBufferPointer(start: UnsafePointer(field.value), count: field.valuelen)
                let isValid = unsafe self.check.takes(name, value)
                guard unsafe state.pointee.headerReceived(name, value, isValid: isValid) else { throw .limit }
            }
            if flags & Int32(NGHTTP2_HD_INFLATE_FINAL.rawValue) != 0 {
                unsafe nghttp2_hd_inflate_end_headers(self.inflater)
                return
            }
            if !isEmitted, offset == fragment.count { return }
        }
    }
}

/// Checks that an answer's header block is well-formed (RFC 9113 §8.1.1, §8.2, §8.3).
struct HeaderCheck {
    private let isTrailers: Bool
    private var isRegularSeen = false
    private(set) var status = 0
    /// The announced length; -1 when there is none.
    private(set) var contentLength = -1
    private(set) var isMalformed = false

    /// The names that belong to a connection, not to a message (RFC 9113 §8.2.2).
    private static let connectionSpecific: [StaticString] = [
        "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade",
    ]

    init(isTrailers: Bool) { self.isTrailers = isTrailers }

    /// Checks one field; returns false when it makes the block malformed.
    @unsafe
    mutating func takes(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) -> Bool {
        let isPseudo = unsafe name.first == 0x3a
        if !isPseudo {
            self.isRegularSeen = true
            guard unsafe nghttp2_check_header_name(name.baseAddress, name.count) != 0,
                unsafe nghttp2_check_header_value(value.baseAddress, value.count) != 0
            else {
                self.isMalformed = true
                return false
            }
        }
        let isWellFormed = unsafe isPseudo ? self.takesPseudo(name, value) : self.takesRegular(name, value)
        if !isWellFormed { self.isMalformed = true }
        return isWellFormed
    }

    private mutating func takesPseudo(
        _ name: UnsafeBufferPointer<UInt8>,
        _ value: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        guard !self.isTrailers, !self.isRegularSeen, self.status == 0, unsafe Self.equal(name, ":status"),
            value.count == 3
        else { return false }
        guard let status = unsafe Self.number(value), status >= 100 else { return false }
        self.status = status
        return true
    }

    private mutating func takesRegular(
        _ name: UnsafeBufferPointer<UInt8>,
        _ value: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        if Self.connectionSpecific.contains(where: { unsafe Self.equal(name, $0) }) { return false }
        guard unsafe Self.equal(name, "content-length"), !self.isTrailers else { return true }
        guard self.contentLength < 0, (1...18).contains(value.count) else { return false }
        guard let length = unsafe Self.number(value) else { return false }
        self.contentLength = length
        return true
    }

    /// Parses a number of so few digits that it cannot overflow; nil for anything else.
    private static func number(_ digits: UnsafeBufferPointer<UInt8>) -> Int? {
        var number = 0
        for index in 0..<digits.count {
            let digit = unsafe digits[index]
            guard (0x30...0x39).contains(digit) else { return nil }
            number = number * 10 + Int(digit - 0x30)
        }
        return number
    }

    private static func equal(_ name: UnsafeBufferPointer<UInt8>, _ text: StaticString) -> Bool {
        guard name.count == text.utf8CodeUnitCount else { return false }
        for index in 0..<name.count where unsafe name[index] != text.utf8Start[index] { return false }
        return true
    }
}
