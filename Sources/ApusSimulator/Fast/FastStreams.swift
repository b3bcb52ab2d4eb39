/// A request with an incomplete body.
struct FastRequest {
    /// The stream; 0 for a free entry.
    var streamID: UInt32 = 0
    /// The token of 32 bytes, if `hasToken`; otherwise `path` holds it, if there is one.
    var token: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
    var hasToken = false
    var id: (UInt64, UInt64)?
    /// The path, kept only if it holds no token of 32 bytes, or if faults may depend on it.
    var path: [UInt8] = []
    /// The part of the body from earlier frames.
    var body: [UInt8] = []
}

/// Holds the open requests of a connection by stream, most in an array, because a client's streams are numbered in order.
struct FastStreams {
    private static let places = 2_048

    private var direct = [FastRequest](repeating: FastRequest(), count: FastStreams.places)
    private var others: [UInt32: FastRequest] = [:]

    @inline(__always)
    private static func place(_ streamID: UInt32) -> Int { Int(streamID >> 1) & (Self.places - 1) }

    mutating func insert(_ request: consuming FastRequest) {
        let place = Self.place(request.streamID)
        if self.direct[place].streamID == 0 {
            self.direct[place] = request
        } else {
            self.others[request.streamID] = request
        }
    }

    func contains(_ streamID: UInt32) -> Bool {
        self.direct[Self.place(streamID)].streamID == streamID || self.others[streamID] != nil
    }

    /// Adds to the body; returns false when there is no such request, or the body becomes too long.
    mutating func append(_ bytes: Span<UInt8>, to streamID: UInt32) -> Bool {
        let place = Self.place(streamID)
        if self.direct[place].streamID == streamID { return Self.append(bytes, to: &self.direct[place].body) }
        guard var request = self.others.removeValue(forKey: streamID) else { return false }
        defer { self.others[streamID] = request }
        return Self.append(bytes, to: &request.body)
    }

    private static func append(_ bytes: Span<UInt8>, to body: inout [UInt8]) -> Bool {
        guard body.count + bytes.count <= SimulatorLimits.requestBodyBytesMax else { return false }
        body.append(span: bytes)
        return true
    }

    mutating func remove(_ streamID: UInt32) -> FastRequest? {
        let place = Self.place(streamID)
        guard self.direct[place].streamID == streamID else { return self.others.removeValue(forKey: streamID) }
        let request = self.direct[place]
        self.direct[place] = FastRequest()
        return request
    }
}
