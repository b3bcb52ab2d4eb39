/// A request whose body is still on its way.
struct BlindRequest {
    /// 0: the place is free.
    var streamID: UInt32 = 0
    var isTokenEndpoint = false
    /// Apple's classic token, 32 bytes; else `path` holds what the client wrote.
    var token: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
    var hasToken = false
    var id: (UInt64, UInt64)?
    /// Kept only when the token is not in the classic form, or when scripts may look at it.
    var path: [UInt8] = []
    /// What came of the body in earlier frames.
    var body: [UInt8] = []
}

/// The open requests of a connection, found by stream: directly as a rule, for the streams of a client rise in step.
struct BlindStreams {
    private static let places = 2_048

    private var direct = [BlindRequest](repeating: BlindRequest(), count: BlindStreams.places)
    private var others: [UInt32: BlindRequest] = [:]

    @inline(__always)
    private static func place(_ streamID: UInt32) -> Int { Int(streamID >> 1) & (Self.places - 1) }

    mutating func insert(_ request: consuming BlindRequest) {
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

    /// Adds to the body; false: no such request, or the body becomes too long.
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

    mutating func remove(_ streamID: UInt32) -> BlindRequest? {
        let place = Self.place(streamID)
        guard self.direct[place].streamID == streamID else { return self.others.removeValue(forKey: streamID) }
        let request = self.direct[place]
        self.direct[place] = BlindRequest()
        return request
    }
}
