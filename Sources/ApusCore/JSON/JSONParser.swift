extension JSONValue {
    /// Parses one JSON value, strictly by RFC 8259, with limits.
    ///
    /// A repeated member is refused: readers disagree about which one counts (RFC 8259 §4), and the checked value must be the used one.
    ///
    /// - Parameters:
    ///   - bytes: UTF-8 without a byte order mark.
    ///   - bytesMax: the maximum length.
    ///   - depthMax: the maximum nesting of arrays and objects.
    ///   - valuesMax: the maximum number of values.
    public init(
        parsing bytes: [UInt8],
        bytesMax: Int,
        depthMax: Int = Limits.jsonDepthMax,
        valuesMax: Int = Limits.jsonValuesMax,
    ) throws(JSONError) {
        guard bytes.count <= bytesMax else { throw JSONError(.tooLong, at: bytesMax) }
        var parser = JSONParser(bytes: bytes, depthMax: depthMax, valuesMax: valuesMax)
        self = try parser.document()
    }

    /// Parses one JSON value from a text, under the same rules.
    public init(
        parsing text: String,
        bytesMax: Int,
        depthMax: Int = Limits.jsonDepthMax,
    ) throws(JSONError) {
        guard text.utf8.count <= bytesMax else { throw JSONError(.tooLong, at: bytesMax) }
        try self.init(parsing: Array(text.utf8), bytesMax: bytesMax, depthMax: depthMax)
    }
}

/// Parses by recursive descent; the recursion is bounded by `depthMax`.
private struct JSONParser {
    private let bytes: [UInt8]
    private let depthMax: Int
    private let valuesMax: Int
    private var offset = 0
    private var depth = 0
    private var count = 0

    init(bytes: [UInt8], depthMax: Int, valuesMax: Int) {
        self.bytes = bytes
        self.depthMax = depthMax
        self.valuesMax = valuesMax
    }

    mutating func document() throws(JSONError) -> JSONValue {
        self.skipSpace()
        let value = try self.value()
        self.skipSpace()
        guard self.offset == self.bytes.count else { throw JSONError(.trailingBytes, at: self.offset) }
        return value
    }

    private mutating func value() throws(JSONError) -> JSONValue {
        self.count += 1
        guard self.count <= self.valuesMax else { throw JSONError(.tooManyValues, at: self.offset) }
        switch try self.peek() {
        case 0x7b: return .object(try self.object())
        case 0x5b: return .array(try self.array())
        case 0x22: return .string(try self.string())
        case 0x2d, 0x30...0x39: return .number(try self.number())
        case 0x74: return try self.word("true", .bool(true))
        case 0x66: return try self.word("false", .bool(false))
        case 0x6e: return try self.word("null", .null)
        default: throw JSONError(.unexpectedByte, at: self.offset)
        }
    }

    private mutating func word(_ word: StaticString, _ value: JSONValue) throws(JSONError) -> JSONValue {
        for expected in word.description.utf8 {
            guard try self.peek() == expected else { throw JSONError(.unexpectedByte, at: self.offset) }
            self.offset += 1
        }
        return value
    }

    private mutating func object() throws(JSONError) -> JSONObject {
        try self.enter()
        var members: [JSONObject.Member] = []
        var names: Set<[UInt8]> = []
        self.skipSpace()
        while try self.peek() != 0x7d {
            if !members.isEmpty { try self.comma() }
            let nameOffset = self.offset
            guard try self.peek() == 0x22 else { throw JSONError(.unexpectedByte, at: self.offset) }
            let name = try self.string()
            guard names.insert(Array(name.utf8)).inserted else { throw JSONError(.duplicateName, at: nameOffset) }
            self.skipSpace()
            guard try self.peek() == 0x3a else { throw JSONError(.unexpectedByte, at: self.offset) }
            self.offset += 1
            self.skipSpace()
            members.append(JSONObject.Member(name: name, value: try self.value()))
            self.skipSpace()
        }
        self.leave()
        return JSONObject(checked: members)
    }

    private mutating func array() throws(JSONError) -> [JSONValue] {
        try self.enter()
        var elements: [JSONValue] = []
        self.skipSpace()
        while try self.peek() != 0x5d {
            if !elements.isEmpty { try self.comma() }
            elements.append(try self.value())
            self.skipSpace()
        }
        self.leave()
        return elements
    }

    /// Skips a comma and checks what follows: the caller refuses a closing bracket there.
    private mutating func comma() throws(JSONError) {
        guard try self.peek() == 0x2c else { throw JSONError(.unexpectedByte, at: self.offset) }
        self.offset += 1
        self.skipSpace()
    }

    private mutating func number() throws(JSONError) -> JSONNumber {
        let start = self.offset
        if self.current == 0x2d { self.offset += 1 }
        if self.current == 0x30 {
            self.offset += 1
        } else {
            try self.digits(from: start)
        }
        if self.current == 0x2e {
            self.offset += 1
            try self.digits(from: start)
        }
        if self.current == 0x65 || self.current == 0x45 {
            self.offset += 1
            if self.current == 0x2b || self.current == 0x2d { self.offset += 1 }
            try self.digits(from: start)
        }
        if let next = self.current, (0x30...0x39).contains(next) || next == 0x2e {
            throw JSONError(.malformedNumber, at: start)
        }
        return JSONNumber(checked: String(decoding: self.bytes[start..<self.offset], as: UTF8.self))
    }

    private mutating func digits(from start: Int) throws(JSONError) {
        let first = self.offset
        while let byte = self.current, (0x30...0x39).contains(byte) { self.offset += 1 }
        guard self.offset > first else { throw JSONError(.malformedNumber, at: start) }
    }

    private mutating func string() throws(JSONError) -> String {
        let start = self.offset
        self.offset += 1
        var text: [UInt8] = []
        while true {
            let byte = try self.peek()
            switch byte {
            case 0x22:
                self.offset += 1
                guard let string = String(validating: text, as: UTF8.self) else {
                    throw JSONError(.malformedUTF8, at: start)
                }
                return string
            case 0x5c: try self.escape(into: &text)
            case 0x00..<0x20: throw JSONError(.controlCharacter, at: self.offset)
            default:
                text.append(byte)
                self.offset += 1
            }
        }
    }

    private mutating func escape(into text: inout [UInt8]) throws(JSONError) {
        let start = self.offset
        self.offset += 1
        let letter = try self.peek()
        self.offset += 1
        switch letter {
        case 0x22, 0x5c, 0x2f: text.append(letter)
        case 0x62: text.append(0x08)
        case 0x66: text.append(0x0c)
        case 0x6e: text.append(0x0a)
        case 0x72: text.append(0x0d)
        case 0x74: text.append(0x09)
        case 0x75:
            var code = try self.fourDigits(of: start)
            if (0xd800..<0xdc00).contains(code) {
                guard try self.peek() == 0x5c else { throw JSONError(.malformedEscape, at: start) }
                self.offset += 1
                guard try self.peek() == 0x75 else { throw JSONError(.malformedEscape, at: start) }
                self.offset += 1
                let low = try self.fourDigits(of: start)
                guard (0xdc00..<0xe000).contains(low) else { throw JSONError(.malformedEscape, at: start) }
                code = 0x10000 + (code - 0xd800) << 10 + (low - 0xdc00)
            }
            guard let scalar = Unicode.Scalar(code) else { throw JSONError(.malformedEscape, at: start) }
            text.append(contentsOf: UTF8.encode(scalar) ?? UTF8.encodedReplacementCharacter)
        default: throw JSONError(.malformedEscape, at: start)
        }
    }

    private mutating func fourDigits(of start: Int) throws(JSONError) -> UInt32 {
        var code: UInt32 = 0
        for _ in 0..<4 {
            let digit = try self.peek()
            let value: UInt8
            switch digit {
            case 0x30...0x39: value = digit - 0x30
            case 0x61...0x66: value = digit - 0x61 + 10
            case 0x41...0x46: value = digit - 0x41 + 10
            default: throw JSONError(.malformedEscape, at: start)
            }
            code = code << 4 | UInt32(value)
            self.offset += 1
        }
        return code
    }

    private mutating func enter() throws(JSONError) {
        guard self.depth < self.depthMax else { throw JSONError(.tooDeep, at: self.offset) }
        self.depth += 1
        self.offset += 1
    }

    private mutating func leave() {
        self.depth -= 1
        self.offset += 1
    }

    private var current: UInt8? { self.offset < self.bytes.count ? self.bytes[self.offset] : nil }

    private func peek() throws(JSONError) -> UInt8 {
        guard self.offset < self.bytes.count else { throw JSONError(.unexpectedEnd, at: self.offset) }
        return self.bytes[self.offset]
    }

    private mutating func skipSpace() {
        while let byte = self.current, byte == 0x20 || byte == 0x0a || byte == 0x0d || byte == 0x09 { self.offset += 1 }
    }
}
