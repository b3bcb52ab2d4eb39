/// The numbers of one send.
public struct SendTally: Hashable, Sendable {
    /// Its id; empty: requests that name none.
    public let send: String
    /// All requests.
    public var requests = 0
    /// Those answered with 200.
    public var accepted = 0
    /// Accepted ones whose token had been accepted before.
    public var repeated = 0
    /// The first request: nanoseconds since 1970.
    public var first = Int64.max
    /// The last request: nanoseconds since 1970.
    public var last = Int64.min

    init(send: String) { self.send = send }
}
