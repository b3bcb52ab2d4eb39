/// Holds one complete reply of Redis as a flat table.
///
/// All bytes lie in one buffer and all nodes in one array, parents before children. Whatever its size, a reply costs
/// three allocations; a thousand records are read by index without creating a thousand objects.
public final class RESPReply: Sendable {
    /// The kinds of nodes.
    public enum Kind: UInt8, Sendable, Hashable {
        /// Binary-safe bytes.
        case bulk
        /// A short text such as "OK".
        case status
        /// An error; a reply whose root is one never leaves the client but is thrown. It may stand inside an array.
        case error
        /// A number.
        case integer
        /// A list of nodes.
        case array
        /// Null: a missing value.
        case null
    }

    /// One row of the table.
    struct Record: Hashable {
        /// The node's kind.
        var kind: Kind
        /// The number of an integer, or the offset of a text's bytes.
        var value: Int64
        /// The number of a text's bytes, or of an array's elements.
        var count: UInt32
        /// The index of the row after the last one that belongs to this node.
        var end: UInt32
    }

    let bytes: [UInt8]
    let records: [Record]
    /// The command that the reply answers and the connection that delivered it. Set once, before the reply is passed on.
    nonisolated(unsafe) private var origin: Origin?

    /// The origin of a reply.
    struct Origin: Sendable {
        /// The command's name, or the function's name for a call.
        let command: String
        /// The connection that delivered the reply; it can be closed from any thread.
        let connection: any ReplyConnection
    }

    init(bytes: [UInt8], records: [Record]) {
        precondition(!records.isEmpty, "a reply needs a root")
        self.bytes = bytes
        self.records = records
    }

    /// A null reply.
    package static let null = RESPReply(bytes: [], records: [Record(kind: .null, value: 0, count: 0, end: 1)])

    /// Records the origin. The receiver calls it once, before it passes the reply on.
    func received(from origin: Origin) { unsafe self.origin = origin }

    /// Returns the error for a reply whose shape differs from its command's documentation, and replaces the connection.
    /// Replies are foreign data: one that does not fit shows that replies and commands of this connection are out of
    /// step, or that the server is of another kind.
    ///
    /// - Parameter expected: the expected shape, such as "an array".
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

    /// The reply's shape without its content, which may be secret.
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

    /// The root node.
    public var root: RESPNode { RESPNode(reply: self, index: 0) }

    /// The number of rows in the table: the root, its elements, theirs, and so on.
    public var nodeCount: Int { self.records.count }
}

extension RESPReply {
    /// Returns the kind of a row's node. Rows are numbered in the order of reading; the root is 0.
    public func kind(at index: Int) -> Kind { self.records[index].kind }

    /// Returns the row after a node and everything that it contains, which is the row of its next sibling.
    public func end(at index: Int) -> Int { Int(self.records[index].end) }

    /// Lends the bytes of a row's node; none for numbers, arrays and null. It allocates nothing.
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
    /// Returns the range of a row's bytes; empty for numbers, arrays and null.
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
    /// The reply for a failed test's message: bytes are shown as text, shortened.
    public var description: String { self.root.description }
}

/// Lets a reply close the connection that delivered it.
protocol ReplyConnection: AnyObject, Sendable {
    /// Closes the connection, from any thread; commands that await a reply fail with `disconnected`.
    func close(because error: RedisError)
}
