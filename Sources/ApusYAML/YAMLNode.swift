internal import CYAML

/// A value of a YAML document, with the line on which it begins.
package struct YAMLNode: Hashable, Sendable {
    /// The kinds of values.
    package indirect enum Content: Hashable, Sendable {
        /// A scalar.
        case scalar(YAMLScalar)
        /// A list.
        case sequence([YAMLNode])
        /// Keys with their values, in the order of the text. Every key is unique.
        case mapping([YAMLPair])
    }

    /// The value.
    package let content: Content
    /// The line on which it begins, from 1.
    package let line: Int

    /// The scalar; nil when it is a list or a mapping.
    package var scalar: YAMLScalar? {
        guard case .scalar(let scalar) = self.content else { return nil }
        return scalar
    }

    /// Parses a text of at most one document. Aliases are replaced by their anchors' values.
    ///
    /// - Returns: nil when the text has no document.
    /// - Throws: ``YAMLError``, whose sentence repeats nothing of the text, which may hold a secret, except keys.
    package static func parse(_ text: String) throws(YAMLError) -> YAMLNode? {
        var parser = try YAMLParser(text)
        return try parser.document()
    }
}

/// A key of a mapping and its value.
package struct YAMLPair: Hashable, Sendable {
    /// The key.
    package let key: YAMLNode
    /// The value.
    package let value: YAMLNode
}

/// A scalar as it was written.
package struct YAMLScalar: Hashable, Sendable {
    /// The text, without quotes.
    package let text: String
    /// True when quotes or a tag mark the scalar as text, whatever it looks like.
    package let isText: Bool

    /// True when the scalar means that there is no value.
    package var isNull: Bool { !self.isText && ["", "~", "null", "Null", "NULL"].contains(self.text) }

    /// The boolean; nil for other scalars. YAML 1.1 has `yes` and `on` too: https://yaml.org/type/bool.html
    package var bool: Bool? {
        guard !self.isText else { return nil }
        let word = self.text.lowercased()
        guard
            self.text == word || self.text == word.uppercased()
                || self.text == word.prefix(1).uppercased() + word.dropFirst()
        else { return nil }
        switch word {
        case "true", "yes", "on": return true
        case "false", "no", "off": return false
        default: return nil
        }
    }

    /// The integer, decimal or after `0x`, `0o` and `0b`; nil for other scalars.
    package var integer: Int? {
        guard !self.isText else { return nil }
        let isNegative = self.text.hasPrefix("-")
        let digits = isNegative || self.text.hasPrefix("+") ? self.text.dropFirst() : self.text[...]
        let radixes: [(prefix: String, radix: Int)] = [("0x", 16), ("0o", 8), ("0b", 2)]
        let based = radixes.first { digits.hasPrefix($0.prefix) }
        let plain = (based == nil ? digits : digits.dropFirst(2)).filter { $0 != "_" }
        guard let first = plain.first, first != "-", first != "+" else { return nil }
        return Int((isNegative ? "-" : "") + plain, radix: based?.radix ?? 10)
    }

    /// The number; nil for other scalars, and for numbers that are not finite.
    package var number: Double? {
        guard !self.isText, self.text.allSatisfy({ $0.isASCII && ($0.isNumber || "+-.eE".contains($0)) }),
            let value = Double(self.text), value.isFinite
        else { return nil }
        return value
    }
}

/// Reports why a text is not YAML.
package struct YAMLError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The error, as the end of a sentence.
    package let problem: String
    /// The line of the error, from 1; nil when unknown.
    package let line: Int?

    /// The error with its line.
    package var description: String { (self.line.map { "line \($0): " } ?? "") + self.problem }
}

/// Builds the nodes of a document from libyaml's events.
@safe private struct YAMLParser: ~Copyable {
    /// The maximum nesting of a document, which bounds the recursion below.
    private static let depthMax = 64

    private let raw: UnsafeMutablePointer<CYAML_Parser>
    private let bytes: UnsafeMutableBufferPointer<UInt8>
    private var event = unsafe CYAML_Event()
    private var anchors: [String: YAMLNode] = [:]

    init(_ text: String) throws(YAMLError) {
        var text = text
        let bytes = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: max(1, text.utf8.count))
        let count = text.withUTF8 { unsafe bytes.update(fromContentsOf: $0) }
        guard let raw = unsafe CYAML_parserCreate(bytes.baseAddress, count) else {
            unsafe bytes.deallocate()
            throw YAMLError(problem: "there is not enough memory", line: nil)
        }
        unsafe self.raw = raw
        unsafe self.bytes = bytes
    }

    deinit {
        unsafe CYAML_parserFree(self.raw)
        unsafe self.bytes.deallocate()
    }

    mutating func document() throws(YAMLError) -> YAMLNode? {
        // The first events are the start of the stream, then of a document, or the end.
        try self.advance()
        try self.advance()
        guard unsafe self.event.type == YAML_DOCUMENT_START_EVENT else { return nil }
        try self.advance()
        let root = try self.node(depth: 0)
        try self.advance()
        guard unsafe self.event.type == YAML_STREAM_END_EVENT else {
            throw YAMLError(problem: "found another document", line: unsafe self.event.line)
        }
        return root
    }

    private mutating func advance() throws(YAMLError) {
        guard unsafe CYAML_parserNext(self.raw, &self.event) == 0 else { return }
        let problem = unsafe CYAML_parserProblem(self.raw).map { unsafe String(cString: $0) }
        let line = unsafe Int(CYAML_parserProblemLine(self.raw))
        throw YAMLError(problem: problem ?? "it cannot be parsed", line: line == 0 ? nil : line)
    }

    /// Builds the node that begins with the current event; afterwards the following event is the current one.
    private mutating func node(depth: Int) throws(YAMLError) -> YAMLNode {
        let line = unsafe Int(self.event.line)
        let anchor = unsafe self.event.anchor.map { unsafe String(cString: $0) }
        guard depth <= Self.depthMax else { throw YAMLError(problem: "it is nested too deeply", line: line) }
        let content: YAMLNode.Content
        switch unsafe self.event.type {
        case YAML_ALIAS_EVENT:
            guard let anchor, let node = self.anchors[anchor] else {
                throw YAMLError(problem: "an alias has no anchor", line: line)
            }
            try self.advance()
            return node
        case YAML_SCALAR_EVENT:
            content = .scalar(self.scalar())
            try self.advance()
        case YAML_SEQUENCE_START_EVENT:
            content = .sequence(try self.elements(depth: depth))
        case YAML_MAPPING_START_EVENT:
            content = .mapping(try self.pairs(depth: depth, line: line))
        default: throw YAMLError(problem: "it cannot be parsed", line: line)
        }
        let node = YAMLNode(content: content, line: line)
        if let anchor { self.anchors[anchor] = node }
        return node
    }

    private func scalar() -> YAMLScalar {
        let bytes = unsafe UnsafeRawBufferPointer(start: self.event.text, count: self.event.length)
        let tag = unsafe self.event.tag.map { unsafe String(cString: $0) }
        return YAMLScalar(
            text: unsafe String(decoding: bytes, as: UTF8.self),
            isText: tag.map { $0 == "!" || $0 == "tag:yaml.org,2002:str" } ?? (unsafe self.event.isPlain == 0),
        )
    }

    private mutating func elements(depth: Int) throws(YAMLError) -> [YAMLNode] {
        var elements: [YAMLNode] = []
        try self.advance()
        while unsafe self.event.type != YAML_SEQUENCE_END_EVENT { elements.append(try self.node(depth: depth + 1)) }
        try self.advance()
        return elements
    }

    private mutating func pairs(depth: Int, line: Int) throws(YAMLError) -> [YAMLPair] {
        var pairs: [YAMLPair] = []
        var keys: Set<String> = []
        try self.advance()
        while unsafe self.event.type != YAML_MAPPING_END_EVENT {
            let key = try self.node(depth: depth + 1)
            if let text = key.scalar?.text, !keys.insert(text).inserted {
                throw YAMLError(problem: "the key \(text) is repeated", line: line)
            }
            pairs.append(YAMLPair(key: key, value: try self.node(depth: depth + 1)))
        }
        try self.advance()
        return pairs
    }
}
