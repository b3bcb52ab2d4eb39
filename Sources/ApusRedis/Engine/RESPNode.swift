/// A view of one node of a reply.
public struct RESPNode: Sendable {
    /// The reply that holds the node.
    public let reply: RESPReply
    /// The node's row in the reply's table.
    public let index: Int

    private var record: RESPReply.Record { self.reply.records[self.index] }

    /// The node's kind.
    public var kind: RESPReply.Kind { self.record.kind }

    /// The number of elements of an array, or of bytes of a text; otherwise 0.
    public var count: Int {
        switch self.record.kind {
        case .integer, .null: 0
        case .bulk, .status, .error, .array: Int(self.record.count)
        }
    }

    /// True for a null.
    public var isNull: Bool { self.record.kind == .null }

    /// The elements of an array; empty for anything else.
    public var children: Children { Children(parent: self) }

    /// Returns an element of an array. It walks over the elements before it: to read all of them use `elements`.
    ///
    /// The connection is closed as by ``RESPReply/unexpected(_:)`` when this is not an array or has fewer elements, and
    /// the result is null, so that the caller's check of the expected values fails. Where null is a valid value, use
    /// ``at(_:)``.
    public subscript(position: Int) -> RESPNode {
        do throws(RedisError) {
            return try self.at(position)
        } catch {
            return RESPReply.null.root
        }
    }

    /// Returns an element of an array.
    ///
    /// - Throws: `unexpectedReply` when this is not an array or has fewer elements; see ``RESPReply/unexpected(_:)``.
    public func at(_ position: Int) throws(RedisError) -> RESPNode {
        guard let element = self.element(position) else {
            throw self.reply.unexpected("an array of more than \(position)")
        }
        return element
    }

    /// Returns an element; nil when this is not an array or has fewer elements.
    public func element(_ position: Int) -> RESPNode? {
        guard self.kind == .array, position >= 0, position < self.count else { return nil }
        var child = self.index + 1
        for _ in 0..<position { child = self.reply.end(at: child) }
        return RESPNode(reply: self.reply, index: child)
    }

    /// Returns the elements of an array; none for null.
    ///
    /// - Throws: `unexpectedReply` for anything else.
    public func elements() throws(RedisError) -> Children {
        guard self.kind == .array || self.isNull else { throw self.reply.unexpected("an array") }
        return self.children
    }

    /// Returns the text of a bulk or status; empty for null.
    ///
    /// - Throws: `unexpectedReply` for anything else and for bytes that are not UTF-8.
    public func text() throws(RedisError) -> String {
        guard let text = self.string else {
            guard self.isNull else { throw self.reply.unexpected("a text") }
            return ""
        }
        return text
    }

    /// Returns a number, which may also stand in decimal digits within a bulk or status; 0 for null and for an empty bulk.
    ///
    /// - Throws: `unexpectedReply` for anything else.
    public func number() throws(RedisError) -> Int64 {
        guard let number = self.integer else {
            guard self.isNull || self.kind == .bulk && self.count == 0 else { throw self.reply.unexpected("a number") }
            return 0
        }
        return number
    }

    /// Returns a copy of the bytes of a bulk or status; empty for null.
    ///
    /// - Throws: `unexpectedReply` for anything else.
    public func blob() throws(RedisError) -> [UInt8] {
        guard let bytes = self.bytes else {
            guard self.isNull else { throw self.reply.unexpected("bytes") }
            return []
        }
        return bytes
    }

    /// Lends the bytes of a bulk, status or error; none for anything else. It allocates nothing.
    public func withBytes<Result, Failure: Error>(
        _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try self.reply.withBytes(at: self.index, body)
    }

    /// A copy of the bytes of a bulk or status; nil for anything else.
    public var bytes: [UInt8]? {
        guard self.kind == .bulk || self.kind == .status else { return nil }
        return Array(self.reply.bytes[self.reply.byteRange(at: self.index)])
    }

    /// The text of a bulk or status; nil for anything else and for bytes that are not UTF-8.
    public var string: String? {
        guard self.kind == .bulk || self.kind == .status else { return nil }
        return self.withBytes { bytes in
            do {
                return String(copying: try UTF8Span(validating: bytes))
            } catch {
                return nil
            }
        }
    }

    /// The number, which may also stand in decimal digits within a bulk or status (as in hash fields); otherwise nil.
    public var integer: Int64? {
        switch self.kind {
        case .integer: self.record.value
        case .bulk, .status: self.withBytes(Self.decimal)
        case .error, .array, .null: nil
        }
    }

    /// The text of an error node; nil for anything else.
    public var errorText: String? {
        guard self.kind == .error else { return nil }
        return String(decoding: self.reply.bytes[self.reply.byteRange(at: self.index)], as: UTF8.self)
    }

    /// Parses the strict decimal form: an optional minus, digits, nothing else, within Int64.
    private static func decimal(_ digits: Span<UInt8>) -> Int64? {
        let negative = digits.count > 0 && digits[0] == 0x2d
        guard digits.count > (negative ? 1 : 0) else { return nil }
        var value: Int64 = 0
        for index in (negative ? 1 : 0)..<digits.count {
            guard (0x30...0x39).contains(digits[index]) else { return nil }
            let (shifted, overflowed) = value.multipliedReportingOverflow(by: 10)
            let digit = Int64(digits[index] - 0x30)
            let (sum, overflowedAgain) = shifted.addingReportingOverflow(negative ? -digit : digit)
            guard !overflowed, !overflowedAgain else { return nil }
            value = sum
        }
        return value
    }
}

extension RESPNode {
    /// The sequence of an array's elements.
    public struct Children: Sequence, Sendable {
        fileprivate let parent: RESPNode

        /// The number of elements.
        public var underestimatedCount: Int { self.parent.kind == .array ? self.parent.count : 0 }

        /// Creates an iterator that starts at the first element.
        public func makeIterator() -> Iterator {
            let end = self.parent.kind == .array ? self.parent.reply.end(at: self.parent.index) : 0
            return Iterator(reply: self.parent.reply, position: self.parent.index + 1, end: end)
        }
    }

    /// Walks the elements of an array.
    public struct Iterator: IteratorProtocol, Sendable {
        fileprivate let reply: RESPReply
        fileprivate var position: Int
        fileprivate let end: Int

        /// Returns the next element.
        public mutating func next() -> RESPNode? {
            guard self.position < self.end else { return nil }
            let node = RESPNode(reply: self.reply, index: self.position)
            self.position = self.reply.end(at: self.position)
            return node
        }
    }
}

extension RESPNode: CustomStringConvertible {
    /// The node for a failed test's message: bytes are shown as text, shortened.
    public var description: String {
        switch self.kind {
        case .bulk, .status:
            let text = self.withBytes { bytes in
                var shown: [UInt8] = []
                for index in 0..<Swift.min(bytes.count, 64) { shown.append(bytes[index]) }
                return String(decoding: shown, as: UTF8.self)
            }
            return self.count > 64 ? "\"\(text)…\" (\(self.count) bytes)" : "\"\(text)\""
        case .error: return "error \(self.errorText ?? "")"
        case .integer: return String(self.record.value)
        case .array: return "[" + self.children.map(\.description).joined(separator: ", ") + "]"
        case .null: return "null"
        }
    }
}
