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

    init(bytes: [UInt8], records: [Record]) {
        precondition(!records.isEmpty, "a reply has a root")
        self.bytes = bytes
        self.records = records
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
