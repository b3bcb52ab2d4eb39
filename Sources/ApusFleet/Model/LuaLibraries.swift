/// The libraries that Redis gives to scripts beside Lua's own, as far as Apus' functions use them: `struct`, `cmsgpack`, `bit`.
enum LuaLibrary {
    /// An error that a function of a library raises.
    struct Failure: Error, CustomStringConvertible {
        let text: String

        var description: String { self.text }
    }

    /// Bytes of which values are unpacked, with the next position.
    struct Reader {
        let bytes: Bytes
        var position = 0

        mutating func take(_ count: Int) throws(Failure) -> ArraySlice<UInt8> {
            guard count >= 0, self.position + count <= self.bytes.count else {
                throw Failure(text: "Missing bytes in input.")
            }
            defer { self.position += count }
            return self.bytes[self.position..<(self.position + count)]
        }

        mutating func takeInteger(_ count: Int) throws(Failure) -> UInt64 {
            var number: UInt64 = 0
            for byte in try self.take(count) { number = number << 8 | UInt64(byte) }
            return number
        }
    }

    // MARK: struct

    /// An item of a format of `struct`: `I4`, `i8`, `d`.
    private enum Item {
        case unsigned(Int)
        case signed(Int)
        case double
    }

    private static func items(_ format: Bytes) throws(Failure) -> (items: [Item], isBigEndian: Bool) {
        var (items, isBigEndian) = ([Item](), false)
        var rest = format[...]
        while let sign = rest.popFirst() {
            let digits = rest.prefix { (0x30...0x39).contains($0) }
            switch sign {
            case UInt8(ascii: ">"): isBigEndian = true
            case UInt8(ascii: "<"), UInt8(ascii: "="): isBigEndian = false
            case UInt8(ascii: " "): continue
            case UInt8(ascii: "d"): items.append(.double)
            case UInt8(ascii: "B"): items.append(.unsigned(1))
            case UInt8(ascii: "I"), UInt8(ascii: "i"):
                rest = rest.dropFirst(digits.count)
                let size = digits.isEmpty ? 4 : Int(String(decoding: digits, as: UTF8.self)) ?? 0
                guard (1...8).contains(size) else {
                    throw Failure(text: "integral size \(size) is larger than limit of 32")
                }
                items.append(sign == UInt8(ascii: "I") ? .unsigned(size) : .signed(size))
            default:
                throw Failure(text: "invalid format option '\(Character(UnicodeScalar(sign)))'")
            }
        }
        return (items, isBigEndian)
    }

    /// Performs `struct.pack(format, values…)`.
    static func pack(_ lua: LuaState) throws(Failure) -> Int {
        guard let format = lua.bytes(1) else { throw badArgument(1, "pack", "string expected, got no value") }
        let (items, isBigEndian) = try self.items(format)
        var packed: Bytes = []
        for (offset, item) in items.enumerated() {
            let argument = Int32(offset) + 2
            guard let number = lua.number(argument) else {
                throw badArgument(Int(argument), "pack", "number expected, got \(lua.kind(argument).name)")
            }
            let (bits, size): (UInt64, Int) =
                switch item {
                case .double: (number.bitPattern, 8)
                case .unsigned(let size), .signed(let size):
                    (number < 0 ? UInt64(bitPattern: integer(number)) : unsigned(number), size)
                }
            for place in 0..<size {
                let shift = 8 * (isBigEndian ? size - 1 - place : place)
                packed.append(UInt8(truncatingIfNeeded: bits >> UInt64(shift)))
            }
        }
        lua.push(packed)
        return 1
    }

    /// Performs `struct.unpack(format, bytes, position)`.
    static func unpack(_ lua: LuaState) throws(Failure) -> Int {
        guard let format = lua.bytes(1) else { throw badArgument(1, "unpack", "string expected, got no value") }
        let bytes: Bytes
        if let given = lua.bytes(2) {
            bytes = given
        } else if let number = lua.number(2) {
            bytes = luaText(number)
        } else {
            throw badArgument(2, "unpack", "string expected, got \(lua.kind(2).name)")
        }
        let (items, isBigEndian) = try self.items(format)
        let start = lua.kind(3) == .none ? 1 : lua.number(3) ?? 1
        guard start >= 1 else { throw badArgument(3, "unpack", "offset must be 1 or greater") }
        var position = Int(start) - 1
        _ = lua.reserve(items.count + 1)
        for item in items {
            let size: Int =
                switch item {
                case .double: 8
                case .unsigned(let size), .signed(let size): size
                }
            guard position + size <= bytes.count else { throw badArgument(2, "unpack", "data string too short") }
            var bits: UInt64 = 0
            for place in 0..<size {
                bits = bits << 8 | UInt64(bytes[position + (isBigEndian ? place : size - 1 - place)])
            }
            switch item {
            case .double: lua.push(Double(bitPattern: bits))
            case .unsigned: lua.push(Double(bits))
            case .signed:
                let shift = UInt64(64 - 8 * size)
                lua.push(Double(Int64(bitPattern: bits << shift) >> Int64(shift)))
            }
            position += size
        }
        lua.push(Double(position + 1))
        return items.count + 1
    }

    static func badArgument(_ index: Int, _ function: String, _ text: String) -> Failure {
        Failure(text: "bad argument #\(index) to '\(function)' (\(text))")
    }

    /// Returns a number as C's cast to a signed number does on this machine.
    static func integer(_ number: Double) -> Int64 { Int64(exactly: number.rounded(.towardZero)) ?? .min }

    private static func unsigned(_ number: Double) -> UInt64 { UInt64(exactly: number.rounded(.towardZero)) ?? 0 }

    // MARK: bit

    /// Returns a number's lowest 32 bits.
    static func bits(_ number: Double) -> UInt32 {
        UInt32(truncatingIfNeeded: integer(number.rounded(.toNearestOrEven)))
    }

    // MARK: cmsgpack

    /// The maximum depth of tables in tables.
    private static let depthMax = 16

    /// Performs `cmsgpack.pack(values…)`.
    static func packMessage(_ lua: LuaState) throws(Failure) -> Int {
        guard lua.count > 0 else { throw Failure(text: "MessagePack pack needs input.") }
        var packed: Bytes = []
        for index in 1...lua.count { Self.pack(lua, Int32(index), into: &packed, depth: 0) }
        lua.push(packed)
        return 1
    }

    private static func pack(_ lua: LuaState, _ index: Int32, into bytes: inout Bytes, depth: Int) {
        switch lua.kind(index) {
        case .string: Self.packText(lua.bytes(index) ?? [], into: &bytes)
        case .boolean: bytes.append(lua.boolean(index) ? 0xc3 : 0xc2)
        case .number: Self.pack(lua.number(index) ?? 0, into: &bytes)
        case .table where depth < Self.depthMax: Self.packTable(lua, lua.absolute(index), into: &bytes, depth: depth)
        default: bytes.append(0xc0)
        }
    }

    private static func append(_ number: UInt64, _ size: Int, to bytes: inout Bytes) {
        for shift in stride(from: 8 * (size - 1), through: 0, by: -8) {
            bytes.append(UInt8(truncatingIfNeeded: number >> UInt64(shift)))
        }
    }

    /// Appends the code of a value with a count: in itself, in two bytes behind it, or in four behind the next code.
    private static func packHead(
        _ count: Int,
        short: (limit: Int, base: UInt8),
        long code: UInt8,
        into bytes: inout Bytes,
    ) {
        if count < short.limit { return bytes.append(short.base | UInt8(count)) }
        let isShort = count < 65_536
        bytes.append(isShort ? code : code + 1)
        Self.append(UInt64(count), isShort ? 2 : 4, to: &bytes)
    }

    private static func packText(_ text: Bytes, into bytes: inout Bytes) {
        if (32..<256).contains(text.count) {
            bytes.append(0xd9)
            bytes.append(UInt8(text.count))
        } else {
            Self.packHead(text.count, short: (32, 0xa0), long: 0xda, into: &bytes)
        }
        bytes += text
    }

    private static func pack(_ number: Double, into bytes: inout Bytes) {
        guard let integer = Int64(exactly: number) else {
            if Double(Float(number)) == number {
                bytes.append(0xca)
                Self.append(UInt64(Float(number).bitPattern), 4, to: &bytes)
            } else {
                bytes.append(0xcb)
                Self.append(number.bitPattern, 8, to: &bytes)
            }
            return
        }
        let bits = UInt64(bitPattern: integer)
        let (code, size): (UInt8?, Int) =
            switch integer {
            case 0..<128: (nil, 1)
            case 0..<256: (0xcc, 1)
            case 0..<65_536: (0xcd, 2)
            case 0..<4_294_967_296: (0xce, 4)
            case 0...: (0xcf, 8)
            case -32..<0: (nil, 1)
            case -128..<0: (0xd0, 1)
            case -32_768..<0: (0xd1, 2)
            case -2_147_483_648..<0: (0xd2, 4)
            default: (0xd3, 8)
            }
        if let code { bytes.append(code) }
        Self.append(bits, size, to: &bytes)
    }

    private static func packTable(_ lua: LuaState, _ table: Int32, into bytes: inout Bytes, depth: Int) {
        guard lua.reserve(4) else { return bytes.append(0xc0) }
        var (count, greatest, isList) = (0, 0.0, true)
        lua.pushNull()
        while lua.next(table) {
            count += 1
            if lua.kind(-2) == .number, let key = lua.number(-2), key > 0, key == key.rounded(.down) {
                greatest = max(greatest, key)
            } else {
                isList = false
            }
            lua.pop()
        }
        isList = isList && greatest == Double(count)
        if isList {
            Self.packHead(count, short: (16, 0x90), long: 0xdc, into: &bytes)
            for index in 0..<count {
                lua.pushElement(index + 1, of: table)
                Self.pack(lua, -1, into: &bytes, depth: depth + 1)
                lua.pop()
            }
            return
        }
        Self.packHead(count, short: (16, 0x80), long: 0xde, into: &bytes)
        lua.pushNull()
        while lua.next(table) {
            Self.pack(lua, -2, into: &bytes, depth: depth + 1)
            Self.pack(lua, -1, into: &bytes, depth: depth + 1)
            lua.pop()
        }
    }

    /// Performs `cmsgpack.unpack(bytes)`: every value of the bytes.
    static func unpackMessage(_ lua: LuaState) throws(Failure) -> Int {
        guard let bytes = lua.bytes(1) else {
            throw badArgument(1, "unpack", "string expected, got \(lua.kind(1).name)")
        }
        var reader = Reader(bytes: bytes)
        var count = 0
        while reader.position < bytes.count {
            guard lua.reserve(8) else { throw Failure(text: "Could not create space on Lua stack.") }
            try Self.unpack(lua, &reader)
            count += 1
        }
        return count
    }

    private static func unpack(_ lua: LuaState, _ reader: inout Reader) throws(Failure) {
        let head = try reader.take(1).first ?? 0
        switch head {
        case 0x00...0x7f: lua.push(Double(head))
        case 0x80...0x8f: try Self.unpackMap(lua, &reader, Int(head & 0x0f))
        case 0x90...0x9f: try Self.unpackList(lua, &reader, Int(head & 0x0f))
        case 0xa0...0xbf: lua.push(try reader.take(Int(head & 0x1f)))
        case 0xc0: lua.pushNull()
        case 0xc2: lua.push(false)
        case 0xc3: lua.push(true)
        case 0xc4, 0xd9: lua.push(try Self.text(&reader, 1))
        case 0xc5, 0xda: lua.push(try Self.text(&reader, 2))
        case 0xc6, 0xdb: lua.push(try Self.text(&reader, 4))
        case 0xca: lua.push(Double(Float(bitPattern: UInt32(try reader.takeInteger(4)))))
        case 0xcb: lua.push(Double(bitPattern: try reader.takeInteger(8)))
        case 0xcc: lua.push(Double(try reader.takeInteger(1)))
        case 0xcd: lua.push(Double(try reader.takeInteger(2)))
        case 0xce: lua.push(Double(try reader.takeInteger(4)))
        case 0xcf: lua.push(Double(try reader.takeInteger(8)))
        case 0xd0: lua.push(Double(Int8(truncatingIfNeeded: try reader.takeInteger(1))))
        case 0xd1: lua.push(Double(Int16(truncatingIfNeeded: try reader.takeInteger(2))))
        case 0xd2: lua.push(Double(Int32(truncatingIfNeeded: try reader.takeInteger(4))))
        case 0xd3: lua.push(Double(Int64(bitPattern: try reader.takeInteger(8))))
        case 0xdc: try Self.unpackList(lua, &reader, Int(try reader.takeInteger(2)))
        case 0xdd: try Self.unpackList(lua, &reader, Int(try reader.takeInteger(4)))
        case 0xde: try Self.unpackMap(lua, &reader, Int(try reader.takeInteger(2)))
        case 0xdf: try Self.unpackMap(lua, &reader, Int(try reader.takeInteger(4)))
        case 0xe0...0xff: lua.push(Double(Int8(bitPattern: head)))
        default: throw Failure(text: "Bad data format in input.")
        }
    }

    private static func text(_ reader: inout Reader, _ size: Int) throws(Failure) -> ArraySlice<UInt8> {
        let count = Int(try reader.takeInteger(size))
        return try reader.take(count)
    }

    private static func unpackList(_ lua: LuaState, _ reader: inout Reader, _ count: Int) throws(Failure) {
        guard lua.reserve(4) else { throw Failure(text: "Could not create space on Lua stack.") }
        lua.pushTable()
        for index in 0..<count {
            try Self.unpack(lua, &reader)
            lua.setElement(index + 1, of: -2)
        }
    }

    private static func unpackMap(_ lua: LuaState, _ reader: inout Reader, _ count: Int) throws(Failure) {
        guard lua.reserve(4) else { throw Failure(text: "Could not create space on Lua stack.") }
        lua.pushTable()
        let table = lua.absolute(-1)
        for _ in 0..<count {
            try Self.unpack(lua, &reader)
            try Self.unpack(lua, &reader)
            // A key that Lua does not take ends the message.
            guard lua.kind(-2) != .null else { throw Failure(text: "Bad data format in input.") }
            lua.setPair(table)
        }
    }
}

/// Returns a number as Lua writes it: 14 significant digits.
func luaText(_ number: Double) -> Bytes {
    if let integer = Int64(exactly: number), abs(integer) < 100_000_000_000_000 { return Bytes(digitsOf: integer) }
    return formatNumber(number)
}

extension LuaState.Kind {
    /// The kind's name in Lua's errors.
    var name: String {
        switch self {
        case .none: "no value"
        case .null: "nil"
        case .boolean: "boolean"
        case .number: "number"
        case .string: "string"
        case .table: "table"
        case .function: "function"
        case .other: "userdata"
        }
    }
}
