/// Who reads and writes the frames of a client's connection; slots, events and deadlines are ``ClientState``'s.
@safe enum ClientWire {
    case lean(UnsafeMutablePointer<LeanWire>)
    case library(LibraryWire)

    /// Whether there is more to come.
    enum Standing {
        /// Frames go both ways.
        case alive
        /// What the peer still sends is not looked at; we have something to say yet.
        case lastWords
        case over
    }

    init(_ engine: HTTP2Engine, _ state: UnsafeMutablePointer<ClientState>) throws(HTTP2Error) {
        switch engine {
        case .lean:
            let lean = UnsafeMutablePointer<LeanWire>.allocate(capacity: 1)
            do throws(HTTP2Error) {
                unsafe lean.initialize(to: try LeanWire(state))
            } catch {
                unsafe lean.deallocate()
                throw error
            }
            unsafe self = .lean(lean)
        case .nghttp2: self = .library(try unsafe LibraryWire(state))
        }
    }

    func free() {
        switch self {
        case .lean(let lean):
            unsafe lean.deinitialize(count: 1)
            unsafe lean.deallocate()
        case .library(let library): library.free()
        }
    }

    /// Bytes that the peer lets us send on the connection now.
    var connectionWindow: Int {
        switch self {
        case .lean(let lean): unsafe lean.pointee.sendWindow
        case .library(let library): library.connectionWindow
        }
    }

    var wantsWrite: Bool {
        switch self {
        case .lean(let lean): unsafe lean.pointee.wantsWrite
        case .library(let library): library.wantsWrite
        }
    }

    var standing: Standing {
        switch self {
        case .lean(let lean): unsafe lean.pointee.standing
        case .library(let library): library.standing
        }
    }

    func receive(_ bytes: UnsafeBufferPointer<UInt8>) throws(WireFailure) {
        switch self {
        case .lean(let lean): try unsafe lean.pointee.receive(bytes)
        case .library(let library): try unsafe library.receive(bytes)
        }
    }

    /// Fills the state's output.
    @inline(__always)
    func drain() throws(WireFailure) {
        switch self {
        case .lean(let lean): try unsafe lean.pointee.drain()
        case .library(let library): try library.drain()
        }
    }

    /// Takes a slot that holds a templated request; false: no more streams can be opened.
    @inline(__always)
    func submit(
        _ slot: UnsafeMutablePointer<ClientSlot>,
        _ template: RequestTemplate,
        _ authorization: HeaderValue?
    ) -> Bool {
        switch self {
        case .lean(let lean): unsafe lean.pointee.submit(slot)
        case .library(let library): unsafe library.submit(slot, template, authorization)
        }
    }

    /// Copies a plain request into the slot and takes it; false: no more streams can be opened.
    func submitPlain(_ slot: UnsafeMutablePointer<ClientSlot>, _ request: PlainRequest) -> Bool {
        switch self {
        case .lean(let lean): unsafe lean.pointee.submitPlain(slot, request)
        case .library(let library): unsafe library.submitPlain(slot, request)
        }
    }

    /// Gives the stream up.
    func cancel(_ slot: UnsafeMutablePointer<ClientSlot>) {
        switch self {
        case .lean(let lean): unsafe lean.pointee.cancel(slot)
        case .library(let library): unsafe library.cancel(slot)
        }
    }

    /// Whether anything of the request may have left.
    func wasSent(_ slot: UnsafeMutablePointer<ClientSlot>) -> Bool {
        switch self {
        case .lean: unsafe slot.pointee.streamID > 0
        case .library(let library): unsafe library.wasSent(slot)
        }
    }

    /// Sends a PING of eight zero bytes; false: it cannot.
    func ping() -> Bool {
        switch self {
        case .lean(let lean): unsafe lean.pointee.ping()
        case .library(let library): library.ping()
        }
    }
}

/// Why a wire cannot go on.
struct WireFailure: Error {
    /// What to tell the peer before the end; nil: nothing.
    var goodbye: HTTP2ErrorCode?
    /// nil: what the state says.
    var reason: HTTP2CloseReason?

    /// The peer went beyond the limit that the state has noted.
    static let limit = WireFailure(goodbye: .enhanceYourCalm, reason: nil)

    static func violation(_ code: HTTP2ErrorCode, _ words: StaticString) -> WireFailure {
        WireFailure(goodbye: code, reason: .protocolViolation("\(words)"))
    }
}
