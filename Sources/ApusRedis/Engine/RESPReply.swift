/// One complete answer of Redis, as a flat table.
///
/// All bytes lie in one buffer and all nodes in one array, parents before children. Whatever its size, a reply costs
/// three allocations; a thousand records are read by index without creating a thousand objects.
public final class RESPReply: Sendable {
    /// What a node is.
    public enum Kind: UInt8, Sendable, Hashable {
        /// Binary-safe bytes.
        case bulk
        /// A short text such as "OK".
        case status
        /// An error; a reply whose root is one never leaves the client, it is thrown. It may stand inside an array.
        case error
        /// A number.
        case integer
        /// A list of nodes.
        case array
        /// Nothing: a missing value.
        case null
    }

    /// One row of the table.
    struct Record: Hashable {
        /// What it is.
        var kind: Kind
        /// Integer: the number. Bytes: where they begin.
        var value: Int64
        /// Bytes: how many. Array: its elements.
        var count: UInt32
        /// The row after the last one that belongs to this node.
        var end: UInt32
    }

    let bytes: [UInt8]
    let records: [Record]
    /// Which command it answers, and what replaces the connection that brought it. Set once, before anybody else has the reply.
    nonisolated(unsafe) private var origin: Origin?

    /// Where a reply comes from.
    struct Origin: Sendable {
        /// The command's name; of a call, the function's.
        let command: String
        /// Ends the connection that brought the reply, from any thread.
        let connection: any ReplyConnection
    }

    init(bytes: [UInt8], records: [Record]) {
        precondition(!records.isEmpty, "a reply has a root")
        self.bytes = bytes
        self.records = records
    }

    /// A reply that says nothing.
    static let null = RESPReply(bytes: [], records: [Record(kind: .null, value: 0, count: 0, end: 1)])

    /// To be called once, by who received it, before anybody else has it.
    func received(from origin: Origin) { unsafe self.origin = origin }

    /// The error of a reply that has another shape than its command's documentation says. Replies are foreign data: one that does not
    /// fit says that this connection's replies and commands are out of step, or that the server is another kind of server. So the
    /// connection is closed, and another one made.
    ///
    /// - Parameter expected: what the reply should have been, such as "an array".
    public func unexpected(_ expected: String) -> RedisError {
        let origin = unsafe self.origin
        let command = origin?.command ?? "a command"
        let error = RedisError(
            .unexpectedReply,
            "\(command) was answered by \(self.shape) where \(expected) was expected"
        )
        origin?.connection.close(because: error)
        return error
    }

    /// What it looks like, without what it says: that may be secret.
    private var shape: String {
        switch self.root.kind {
        case .bulk: "\(self.root.count) bytes"
        case .status: "a status"
        case .error: "an error"
        case .integer: "a number"
        case .array: "an array of \(self.root.count) with \(self.nodeCount) values"
        case .null: "nothing"
        }
    }

    /// The top of it.
    public var root: RESPNode { RESPNode(reply: self, index: 0) }

    /// Rows in the table: the root, its elements, theirs, and so on.
    public var nodeCount: Int { self.records.count }
}

extension RESPReply {
    /// What the node of that row is. Rows are counted in the order of reading, the root is 0.
    public func kind(at index: Int) -> Kind { self.records[index].kind }

    /// The row after the node of that row and all that it holds: where its next sibling is.
    public func end(at index: Int) -> Int { Int(self.records[index].end) }

    /// Lends the bytes of the node of that row; none for numbers, arrays and null. Allocates nothing.
    public func withBytes<Result, Failure: Error>(
        at index: Int,
        _ body: (Span<UInt8>) throws(Failure) -> Result,
    ) throws(Failure) -> Result {
        let range = self.byteRange(at: index)
        let bytes = self.bytes
        return try body(bytes.span.extracting(range))
    }
}

extension RESPReply {
    /// Where the bytes of the node of that row lie; empty for numbers, arrays and null.
    func byteRange(at index: Int) -> Range<Int> {
        let record = self.records[index]
        switch record.kind {
        case .bulk, .status, .error:
            let start = Int(record.value)
            return start..<start + Int(record.count)
        case .integer, .array, .null:
            return 0..<0
        }
    }
}

extension RESPReply: CustomStringConvertible {
    /// For a failed test's message: bytes are shown as text, shortened.
    public var description: String { self.root.description }
}

/// A connection as its replies know it.
protocol ReplyConnection: AnyObject, Sendable {
    /// Ends the connection; who waits for an answer is told `disconnected`. From any thread.
    func close(because error: RedisError)
}
