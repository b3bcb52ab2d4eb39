/// Holds one stream of a server: its request and its answer. It is reused for another stream afterwards.
@safe struct ServerStream {
    var streamID: Int32 = 0
    var bytes: [UInt8] = []
    var fields: [HTTP2Request.Field] = []
    var body: [UInt8] = []
    /// The bytes of header fields, counted as in RFC 9113 §6.5.2.
    var headerListBytes = 0
    /// True after the request was passed to the caller.
    var isRequested = false
    var isBodyTooLarge = false
    /// The answer's body, and the number of its bytes that were sent.
    var answer: [UInt8] = []
    var answerSent = 0
    var isAnswered = false
    /// True when the answer breaks off: its stream never ends.
    var isAnswerUnfinished = false

    mutating func begin(streamID: Int32) {
        self.streamID = streamID
        self.headerListBytes = 0
        self.isRequested = false
        self.isBodyTooLarge = false
        self.isAnswered = false
        self.answerSent = 0
        self.bytes.reserveCapacity(512)
        self.fields.reserveCapacity(12)
    }

    mutating func end() {
        self.bytes.removeAll(keepingCapacity: true)
        self.fields.removeAll(keepingCapacity: true)
        self.body = []
        self.answer = []
    }

    /// Moves the request out of the stream.
    mutating func takeRequest() -> HTTP2Request {
        let request = HTTP2Request(streamID: self.streamID, bytes: self.bytes, list: self.fields, body: self.body)
        self.bytes = []
        self.fields = []
        self.body = []
        self.isRequested = true
        return request
    }
}

/// Holds the state that nghttp2's callbacks write: streams, events and limits. It is a separate value at a fixed
/// address, so that nghttp2 never holds a pointer to the session that owns it.
@safe struct ServerState: ~Copyable {
    let configuration: HTTP2ServerConfiguration
    /// Every stream object ever created, and the free ones.
    private var made: [UnsafeMutablePointer<ServerStream>]
    private var free: [UnsafeMutablePointer<ServerStream>]
    var output = OutputCursor()
    private var events: [HTTP2ServerEvent] = []
    private var eventHead = 0
    private var headerStream: UnsafeMutablePointer<ServerStream>?
    private(set) var streamsOpenMax = 0
    private var controlFrames = 0
    private(set) var violation: HTTP2Limit?
    private(set) var isGoAwayReceived = false
    private(set) var goAwayCode = HTTP2ErrorCode.noError
    private(set) var message = ""
    private(set) var isNotHTTP2 = false

    init(configuration: HTTP2ServerConfiguration) {
        self.configuration = configuration
        unsafe self.made = []
        unsafe self.free = []
        unsafe self.headerStream = nil
    }

    deinit {
        for index in unsafe self.made.indices {
            unsafe self.made[index].deinitialize(count: 1)
            unsafe self.made[index].deallocate()
        }
    }

    var openStreams: Int { unsafe self.made.count - self.free.count }

    mutating func takeStream(_ streamID: Int32) -> UnsafeMutablePointer<ServerStream> {
        let stream: UnsafeMutablePointer<ServerStream>
        if let used = unsafe self.free.popLast() {
            unsafe stream = used
        } else {
            unsafe stream = .allocate(capacity: 1)
            unsafe stream.initialize(to: ServerStream())
            unsafe self.made.append(stream)
        }
        unsafe stream.pointee.begin(streamID: streamID)
        self.streamsOpenMax = max(self.streamsOpenMax, self.openStreams)
        return unsafe stream
    }

    mutating func streamClosed(_ stream: UnsafeMutablePointer<ServerStream>, code: UInt32) {
        let isServed = unsafe stream.pointee.isAnswered && stream.pointee.answerSent == stream.pointee.answer.count
        if !isServed || code != 0 {
            self.enqueue(
                .cancelled(streamID: unsafe stream.pointee.streamID, code: HTTP2ErrorCode(rawValue: code))
            )
        }
        if let current = unsafe self.headerStream, unsafe current == stream { unsafe self.headerStream = nil }
        unsafe stream.pointee.end()
        unsafe self.free.append(stream)
    }

    // MARK: Events

    mutating func enqueue(_ event: HTTP2ServerEvent) { self.events.append(event) }

    mutating func dequeue() -> HTTP2ServerEvent? {
        guard self.eventHead < self.events.count else { return nil }
        let event = self.events[self.eventHead]
        // A taken event must not keep its bytes alive until the queue is empty.
        self.events[self.eventHead] = .settingsAcknowledged
        self.eventHead += 1
        if self.eventHead == self.events.count {
            self.events.removeAll(keepingCapacity: true)
            self.eventHead = 0
        }
        return event
    }

    // MARK: Received frames

    mutating func headersBegan(_ stream: UnsafeMutablePointer<ServerStream>) {
        unsafe self.headerStream = stream
        self.controlFrames = 0
    }

    mutating func headerReceived(_ name: UnsafeBufferPointer<UInt8>, _ value: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let stream = unsafe self.headerStream else { return true }
        unsafe stream.pointee.headerListBytes += name.count + value.count + 32
        guard unsafe stream.pointee.headerListBytes <= self.configuration.headerListBytesMax else {
            self.violation = .headerList
            return false
        }
        // Trailers hold nothing that a push service uses.
        guard unsafe stream.pointee.body.isEmpty && !stream.pointee.isRequested else { return true }
        let start = unsafe stream.pointee.bytes.count
        unsafe stream.pointee.bytes.append(contentsOf: name)
        unsafe stream.pointee.bytes.append(contentsOf: value)
        unsafe stream.pointee.fields.append(
            HTTP2Request.Field(
                nameStart: start,
                valueStart: start + name.count,
                valueEnd: start + name.count + value.count,
            )
        )
        return true
    }

    /// Appends to the request's body; returns false when it exceeds the limit and the stream must be reset.
    mutating func bodyReceived(
        _ stream: UnsafeMutablePointer<ServerStream>,
        _ bytes: UnsafeBufferPointer<UInt8>
    ) -> Bool {
        guard unsafe stream.pointee.body.count + bytes.count <= self.configuration.bodyBytesMax else {
            unsafe stream.pointee.isBodyTooLarge = true
            return false
        }
        unsafe stream.pointee.body.append(contentsOf: bytes)
        return true
    }

    mutating func requestEnded(_ stream: UnsafeMutablePointer<ServerStream>) {
        guard unsafe !stream.pointee.isRequested && !stream.pointee.isBodyTooLarge else { return }
        self.enqueue(.requested(unsafe stream.pointee.takeRequest()))
    }

    mutating func goAwayReceived(code: UInt32) {
        guard !self.isGoAwayReceived else { return }
        self.isGoAwayReceived = true
        self.goAwayCode = HTTP2ErrorCode(rawValue: code)
        self.enqueue(.goAway(code: self.goAwayCode))
    }

    mutating func controlFrameReceived() -> Bool {
        self.controlFrames += 1
        guard self.controlFrames > HTTP2Limits.controlFramesMax else { return true }
        self.violation = .controlFrames
        return false
    }

    mutating func noteMessage(_ bytes: UnsafeBufferPointer<UInt8>, isNotHTTP2: Bool) {
        self.isNotHTTP2 = self.isNotHTTP2 || isNotHTTP2
        let visible = unsafe bytes.prefix(HTTP2Limits.messageBytesMax).filter { (0x20...0x7e).contains($0) }
        self.message = String(decoding: visible, as: UTF8.self)
    }
}
