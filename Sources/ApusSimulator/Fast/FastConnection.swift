internal import ApusCore
package import ApusHTTP2
package import NIOCore

/// A connection to a fast provider, which accepts every request: HTTP/2 as a pure engine with its own framing, so that
/// it costs less than the client whose speed is measured.
///
/// It reads only the path, the id and the send's id of a request, answers at once, and records it in the ledger. Dead
/// tokens and faults work as on strict connections; credentials, topics and payloads are not validated. HTTP/2 is
/// checked as far as the connection's own state requires.
package struct FastConnection: ~Copyable {
    /// The reason why a connection ended.
    package enum End: Hashable, Sendable {
        /// A fault broke the connection.
        case drop
        /// The client violated the protocol.
        case violation(HTTP2ErrorCode)
    }

    private var responder: FastResponder
    private let streamsMax: UInt32
    private let connectionWindow: Int
    /// True while the client may send only one request at a time.
    private var isNarrow: Bool
    private var hasPreface = false
    private var decoder: HeaderDecoder
    private var streams = FastStreams()
    /// The bytes of an incomplete frame.
    private var pending: [UInt8] = []
    /// A header block that continues in CONTINUATION.
    private var block: [UInt8] = []
    private var blockStream: UInt32 = 0
    private var blockEndsStream = false
    /// The received bytes that were not returned to the client's window yet.
    private var received = 0
    /// The bytes that the client's window still allows.
    private var sendWindow = HTTP2Frame.windowBefore
    /// The bodies that wait for the window.
    private var waiting: [(streamID: UInt32, body: [UInt8])] = []
    /// The last stream that is processed, after GOAWAY was sent.
    private var lastStreamID: UInt32 = .max
    /// The delayed answers, by the millisecond at which they are due.
    private var delayed: [Int64: [(streamID: UInt32, answer: ProviderAnswer?)]] = [:]
    /// The milliseconds at which `release` must be called and that were not taken yet.
    private var newDue: [Int64] = []

    /// The reason why the connection ended; nil while it is open.
    package private(set) var end: End?

    /// Creates the state of a connection that was just accepted.
    package init(
        state: SimulatorState,
        shard: LedgerShard,
        listener: FaultRoute,
        streamsMax: UInt32,
        startsWithOneStream: Bool,
        connectionWindow: Int = HTTP2Frame.windowBefore,
    ) {
        precondition(connectionWindow >= HTTP2Frame.windowBefore)
        self.responder = FastResponder(state: state, shard: shard, listener: listener)
        self.decoder = HeaderDecoder(idHeader: listener.type.traits.idHeader)
        self.streamsMax = streamsMax
        self.isNarrow = startsWithOneStream
        self.connectionWindow = connectionWindow
    }

    /// Writes the server's first frames.
    package func start(_ out: inout ByteBuffer) {
        FastFrames.settings(maxConcurrentStreams: self.isNarrow ? 1 : self.streamsMax, &out)
        let more = self.connectionWindow - HTTP2Frame.windowBefore
        if more > 0 { FastFrames.windowUpdate(UInt32(more), &out) }
    }

    /// Parses bytes from the client, and writes the answers.
    ///
    /// - Parameters:
    ///   - nanoseconds: the time of day in nanoseconds since 1970.
    package mutating func receive(_ bytes: Span<UInt8>, nanoseconds: Int64, _ out: inout ByteBuffer) {
        guard self.end == nil else { return }
        self.responder.begin(nanoseconds: nanoseconds)
        if self.pending.isEmpty {
            let used = self.readFrames(bytes, &out)
            self.pending.append(span: bytes.extracting(used..<bytes.count))
        } else {
            var joined = self.pending
            self.pending = []
            joined.reserveCapacity(joined.count + bytes.count)
            joined.append(span: bytes)
            let used = self.readFrames(joined.span, &out)
            self.pending.append(contentsOf: joined[used...])
        }
        // The window is refilled by halves.
        if self.received >= self.connectionWindow / 2, self.end == nil {
            FastFrames.windowUpdate(UInt32(self.received), &out)
            self.received = 0
        }
        if case .violation(let code) = self.end {
            FastFrames.goAway(lastStreamID: 0, code: code, debug: "", &out)
        }
    }

    /// Returns the milliseconds since 1970 at which `release` must be called and that were not returned before.
    package mutating func takeNewDue() -> [Int64] {
        guard !self.newDue.isEmpty else { return [] }
        defer { self.newDue = [] }
        return self.newDue
    }

    /// Writes the answers that are due at a millisecond.
    package mutating func release(_ millisecond: Int64, _ out: inout ByteBuffer) {
        for (streamID, answer) in self.delayed.removeValue(forKey: millisecond) ?? [] {
            self.answer(streamID, answer, &out)
        }
    }

    // MARK: Frames

    /// Reads complete frames and returns the number of their bytes.
    private mutating func readFrames(_ bytes: Span<UInt8>, _ out: inout ByteBuffer) -> Int {
        var index = 0
        if !self.hasPreface {
            let preface = HTTP2Frame.clientPreface
            guard bytes.count >= preface.count else { return 0 }
            for place in preface.indices where bytes[place] != preface[place] {
                self.end = .violation(.protocolError)
                return bytes.count
            }
            self.hasPreface = true
            index = preface.count
        }
        while bytes.count - index >= HTTP2Frame.headerBytes {
            let frame = HTTP2Frame(bytes, at: index)
            guard frame.length <= HTTP2Frame.payloadBytesMax else {
                self.end = .violation(.frameSizeError)
                return bytes.count
            }
            let start = index + HTTP2Frame.headerBytes
            guard bytes.count - start >= frame.length else { break }
            self.read(frame, bytes.extracting(start..<start + frame.length), &out)
            guard self.end == nil else { return bytes.count }
            index = start + frame.length
        }
        return index
    }

    private mutating func read(_ frame: HTTP2Frame, _ payload: Span<UInt8>, _ out: inout ByteBuffer) {
        guard self.blockStream == 0 || frame.kind == HTTP2Frame.Kind.continuation else {
            return self.violate(.protocolError)
        }
        switch frame.kind {
        case HTTP2Frame.Kind.data: self.readData(frame, payload, &out)
        case HTTP2Frame.Kind.headers: self.readHeaders(frame, payload, &out)
        case HTTP2Frame.Kind.continuation: self.readContinuation(frame, payload, &out)
        case HTTP2Frame.Kind.settings: self.readSettings(frame, payload, &out)
        case HTTP2Frame.Kind.ping where !frame.has(HTTP2Frame.Flags.acknowledgement):
            guard payload.count == 8 else { return self.violate(.frameSizeError) }
            var word: UInt64 = 0
            for index in payload.indices { word = word << 8 | UInt64(payload[index]) }
            FastFrames.pingAcknowledgement(word, &out)
        case HTTP2Frame.Kind.windowUpdate:
            guard payload.count == 4 else { return self.violate(.frameSizeError) }
            guard frame.streamID == 0 else { return }
            self.sendWindow += Int(Self.word(payload, at: 0) & 0x7fff_ffff)
            self.sendWaiting(&out)
        case HTTP2Frame.Kind.reset: _ = self.streams.remove(frame.streamID)
        case HTTP2Frame.Kind.pushPromise: self.violate(.protocolError)
        default: break
        }
    }

    private mutating func violate(_ code: HTTP2ErrorCode) { self.end = .violation(code) }

    private static func word(_ payload: Span<UInt8>, at index: Int) -> UInt32 {
        UInt32(payload[index]) << 24 | UInt32(payload[index + 1]) << 16 | UInt32(payload[index + 2]) << 8
            | UInt32(payload[index + 3])
    }

    private mutating func readSettings(_ frame: HTTP2Frame, _ payload: Span<UInt8>, _ out: inout ByteBuffer) {
        guard !frame.has(HTTP2Frame.Flags.acknowledgement) else { return }
        guard payload.count.isMultiple(of: 6) else { return self.violate(.frameSizeError) }
        FastFrames.settingsAcknowledgement(&out)
    }

    /// Returns the range of a payload without padding, and without the priority that HEADERS may begin with; nil when
    /// the padding is too long.
    private static func content(_ frame: HTTP2Frame, _ payload: Span<UInt8>) -> Range<Int>? {
        var start = 0
        var end = payload.count
        if frame.has(HTTP2Frame.Flags.padded) {
            guard end > 0 else { return nil }
            start = 1
            end -= Int(payload[0])
        }
        if frame.kind == HTTP2Frame.Kind.headers, frame.has(HTTP2Frame.Flags.priority) { start += 5 }
        return start <= end ? start..<end : nil
    }

    private mutating func readHeaders(_ frame: HTTP2Frame, _ payload: Span<UInt8>, _ out: inout ByteBuffer) {
        guard frame.streamID % 2 == 1, let content = Self.content(frame, payload) else {
            return self.violate(.protocolError)
        }
        let endsStream = frame.has(HTTP2Frame.Flags.endStream)
        guard !frame.has(HTTP2Frame.Flags.endHeaders) else {
            return self.readBlock(payload.extracting(content), frame.streamID, endsStream: endsStream, &out)
        }
        self.blockStream = frame.streamID
        self.blockEndsStream = endsStream
        self.block.append(span: payload.extracting(content))
    }

    private mutating func readContinuation(_ frame: HTTP2Frame, _ payload: Span<UInt8>, _ out: inout ByteBuffer) {
        guard frame.streamID == self.blockStream, frame.streamID != 0 else {
            return self.violate(.protocolError)
        }
        guard self.block.count + payload.count <= SimulatorLimits.headerBlockBytesMax else {
            return self.violate(.enhanceYourCalm)
        }
        self.block.append(span: payload)
        guard frame.has(HTTP2Frame.Flags.endHeaders) else { return }
        let block = self.block
        self.block = []
        self.blockStream = 0
        self.readBlock(block.span, frame.streamID, endsStream: self.blockEndsStream, &out)
    }

    private mutating func readBlock(
        _ block: Span<UInt8>,
        _ streamID: UInt32,
        endsStream: Bool,
        _ out: inout ByteBuffer,
    ) {
        // A block that is not needed is decoded, too: it may change the decoder's table.
        guard self.decoder.decode(block) else { return self.violate(.compressionError) }
        guard streamID <= self.lastStreamID else { return }
        // A block of an open request holds trailers.
        if !self.streams.contains(streamID) {
            self.streams.insert(self.responder.request(streamID, path: self.decoder.path, id: self.decoder.id))
        }
        guard endsStream else { return }
        let none: [UInt8] = []
        self.finish(streamID, none.span, &out)
    }

    private mutating func readData(_ frame: HTTP2Frame, _ payload: Span<UInt8>, _ out: inout ByteBuffer) {
        guard frame.streamID != 0, let content = Self.content(frame, payload) else {
            return self.violate(.protocolError)
        }
        self.received += payload.count
        let bytes = payload.extracting(content)
        guard !frame.has(HTTP2Frame.Flags.endStream) else { return self.finish(frame.streamID, bytes, &out) }
        guard self.streams.contains(frame.streamID) else { return }
        if !self.streams.append(bytes, to: frame.streamID) {
            _ = self.streams.remove(frame.streamID)
            FastFrames.reset(frame.streamID, code: .enhanceYourCalm, &out)
        }
    }

    // MARK: Answers

    private mutating func finish(_ streamID: UInt32, _ bytes: Span<UInt8>, _ out: inout ByteBuffer) {
        guard var request = self.streams.remove(streamID), streamID <= self.lastStreamID else { return }
        if self.isNarrow {
            self.isNarrow = false
            FastFrames.settings(maxConcurrentStreams: self.streamsMax, &out)
        }
        let decision: FastResponder.Decision
        if request.body.isEmpty {
            decision = self.responder.decide(request, body: bytes)
        } else {
            request.body.append(span: bytes)
            decision = self.responder.decide(request, body: request.body.span)
        }
        switch decision.action {
        case .accept: self.answerInTime(streamID, nil, decision, &out)
        case .answer(let answer): self.answerInTime(streamID, answer, decision, &out)
        case .silence: break
        case .refuse: FastFrames.reset(streamID, code: .refusedStream, &out)
        case .drop: self.end = .drop
        }
        if decision.isLast {
            self.lastStreamID = streamID
            FastFrames.goAway(lastStreamID: streamID, code: .noError, debug: #"{"reason":"Shutdown"}"#, &out)
        }
    }

    @inline(__always)
    private mutating func answerInTime(
        _ streamID: UInt32,
        _ answer: ProviderAnswer?,
        _ decision: FastResponder.Decision,
        _ out: inout ByteBuffer,
    ) {
        guard decision.delayMicroseconds > 0 else { return self.answer(streamID, answer, &out) }
        let due = (self.responder.nanoseconds / 1_000 + decision.delayMicroseconds + 999) / 1_000
        if self.delayed[due] == nil { self.newDue.append(due) }
        self.delayed[due, default: []].append((streamID, answer))
    }

    /// Writes an answer; nil stands for 200 without a body.
    @inline(__always)
    private mutating func answer(_ streamID: UInt32, _ answer: ProviderAnswer?, _ out: inout ByteBuffer) {
        guard let answer else { return FastFrames.accepted(streamID, &out) }
        FastFrames.headers(answer, streamID, &out)
        guard !answer.body.isEmpty else { return }
        self.waiting.append((streamID, answer.body))
        self.sendWaiting(&out)
    }

    /// Sends waiting bodies in order, each as a whole, as the connection's window allows. They are far shorter than any
    /// stream's window that a client of a push service would set.
    private mutating func sendWaiting(_ out: inout ByteBuffer) {
        var sent = 0
        for (streamID, body) in self.waiting {
            guard body.count <= self.sendWindow else { break }
            self.sendWindow -= body.count
            FastFrames.data(body, streamID, &out)
            sent += 1
        }
        self.waiting.removeFirst(sent)
    }
}
