internal import CHiredis

/// Parses replies from bytes: hiredis' reader with limits of our own.
///
/// Pure: bytes in, replies out. After an error the parser and its connection are unusable: later bytes cannot be
/// matched with commands any more. Replies that were complete before the error can still be read.
@safe public struct RESPParser: ~Copyable {
    private let sink: ReplySink
    private let reader: UnsafeMutablePointer<redisReader>
    private var ready: [RESPReply] = []
    private var taken = 0
    private var failure: RedisError?

    /// Creates a parser without any bytes.
    public init() {
        let sink = ReplySink()
        let table = unsafe CHiredis_Sink(
            context: Unmanaged.passUnretained(sink).toOpaque(),
            string: { unsafe ReplySink.from($0).string(type: $1, bytes: $2, length: $3) },
            array: { unsafe ReplySink.from($0).array(count: $1) },
            integer: { unsafe ReplySink.from($0).integer($1) },
            null: { unsafe ReplySink.from($0).null() },
        )
        guard let reader = unsafe CHiredis_readerCreate(table) else { preconditionFailure("out of memory") }
        self.sink = sink
        unsafe self.reader = reader
    }

    deinit { unsafe CHiredis_readerFree(self.reader) }

    /// The number of received bytes that belong to an incomplete reply.
    public var unreadCount: Int { unsafe CHiredis_readerUnreadCount(self.reader) }

    /// Parses bytes. Complete replies are then available from `nextReply`, also when this throws.
    ///
    /// - Throws: `protocolViolation`, when the bytes are not RESP2 or exceed a limit; every later call throws as well.
    public mutating func receive(_ bytes: Span<UInt8>) throws(RedisError) {
        if let failure = self.failure { throw failure }
        var start = 0
        while start < bytes.count {
            let end = min(start + RedisLimits.feedBytesMax, bytes.count)
            do throws(RedisError) {
                try self.feed(bytes.extracting(start..<end))
            } catch {
                self.failure = error
                throw error
            }
            start = end
        }
    }

    /// Returns the next complete reply, in the order of arrival.
    public mutating func nextReply() -> RESPReply? {
        guard self.taken < self.ready.count else {
            self.ready.removeAll(keepingCapacity: self.ready.count <= 1_024)
            self.taken = 0
            return nil
        }
        let reply = self.ready[self.taken]
        self.taken += 1
        return reply
    }

    private mutating func feed(_ slice: Span<UInt8>) throws(RedisError) {
        guard self.unreadCount + slice.count <= RedisLimits.unreadBytesMax else {
            throw RedisError(.protocolViolation, "a reply of more than \(RedisLimits.unreadBytesMax) unread bytes")
        }
        let fed = unsafe slice.withUnsafeBufferPointer { buffer in
            unsafe buffer.withMemoryRebound(to: CChar.self) {
                unsafe redisReaderFeed(self.reader, $0.baseAddress, $0.count)
            }
        }
        guard fed == REDIS_OK else { throw self.readerError() }
        while true {
            var object: UnsafeMutableRawPointer?
            let code = unsafe redisReaderGetReply(self.reader, &object)
            guard code == REDIS_OK else { throw self.readerError() }
            guard unsafe object != nil else { break }
            self.ready.append(self.sink.takeReply())
        }
        let unread = self.unreadCount
        guard unread > RedisLimits.lineBytesMax else { return }
        // hiredis stops before a line that it cannot finish, so the unread bytes begin with one.
        guard unsafe CHiredis_readerHasLine(self.reader, RedisLimits.lineBytesMax + 2) != 0 else {
            throw RedisError(.protocolViolation, "a line of more than \(RedisLimits.lineBytesMax) bytes")
        }
    }

    private func readerError() -> RedisError {
        if let refusal = self.sink.refusal { return RedisError(.protocolViolation, refusal) }
        let text = unsafe String(cString: CHiredis_readerErrorText(self.reader))
        return RedisError(.protocolViolation, text)
    }
}

/// Receives hiredis' callbacks and writes the values into a table.
///
/// A separate object, so that the C library never holds a pointer to the parser that owns it.
private final class ReplySink {
    private var bytes: [UInt8] = []
    private var records: [RESPReply.Record] = []
    private var elements = 0
    /// The reason why a callback refused a value: hiredis itself only knows "out of memory".
    private(set) var refusal: String?

    static func from(_ context: UnsafeMutableRawPointer?) -> ReplySink {
        guard let context = unsafe context else { preconditionFailure("hiredis passed no sink to its callback") }
        return unsafe Unmanaged<ReplySink>.fromOpaque(context).takeUnretainedValue()
    }

    func string(type: CInt, bytes: UnsafePointer<CChar>?, length: Int) -> CInt {
        guard self.bytes.count + length <= RedisLimits.replyBytesMax else {
            return self.refuse("a reply of more than \(RedisLimits.replyBytesMax) bytes")
        }
        let kind: RESPReply.Kind =
            switch type {
            case REDIS_REPLY_STATUS: .status
            case REDIS_REPLY_ERROR: .error
            default: .bulk
            }
        let start = self.bytes.count
        unsafe UnsafeBufferPointer(start: bytes, count: length).withMemoryRebound(to: UInt8.self) {
            unsafe self.bytes.append(contentsOf: $0)
        }
        return self.append(kind, value: Int64(start), count: UInt32(length))
    }

    func array(count: Int64) -> CInt {
        guard count <= RedisLimits.arrayElementsMax else {
            return self.refuse("an array of more than \(RedisLimits.arrayElementsMax) elements")
        }
        self.elements += Int(count)
        guard self.elements <= RedisLimits.replyElementsMax else {
            return self.refuse("a reply of more than \(RedisLimits.replyElementsMax) elements")
        }
        return self.append(.array, value: 0, count: UInt32(count))
    }

    func integer(_ value: Int64) -> CInt { self.append(.integer, value: value, count: 0) }

    func null() -> CInt { self.append(.null, value: 0, count: 0) }

    private func append(_ kind: RESPReply.Kind, value: Int64, count: UInt32) -> CInt {
        self.records.append(RESPReply.Record(kind: kind, value: value, count: count, end: 0))
        return 1
    }

    private func refuse(_ reason: String) -> CInt {
        self.refusal = reason
        return 0
    }

    /// Returns the table as a reply; the working memory is kept for the next one.
    func takeReply() -> RESPReply {
        self.closeArrays()
        let reply = RESPReply(bytes: Self.exactCopy(self.bytes), records: Self.exactCopy(self.records))
        self.bytes.removeAll(keepingCapacity: self.bytes.capacity <= RedisLimits.scratchBytesMax)
        let recordsBytes = self.records.capacity * MemoryLayout<RESPReply.Record>.stride
        self.records.removeAll(keepingCapacity: recordsBytes <= RedisLimits.scratchBytesMax)
        self.elements = 0
        return reply
    }

    /// Writes into every row the end of its node: from the back, so that children are known before their parent.
    private func closeArrays() {
        for index in self.records.indices.reversed() {
            var end = index + 1
            if self.records[index].kind == .array {
                for _ in 0..<self.records[index].count { end = Int(self.records[end].end) }
            }
            self.records[index].end = UInt32(end)
        }
    }

    private static func exactCopy<Element>(_ array: [Element]) -> [Element] {
        guard !array.isEmpty else { return [] }
        return unsafe [Element](unsafeUninitializedCapacity: array.count) { target, count in
            unsafe array.withUnsafeBufferPointer { source in
                count = unsafe target.initialize(fromContentsOf: source)
            }
        }
    }
}
