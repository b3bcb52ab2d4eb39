/// A call of one of Apus' Redis functions, with named fields.
///
/// The fields travel as one argument, MessagePack values one after the other: first the required fields, then those
/// with a default, each in the order in which they are set. In Lua they are the parameters of the function, with the
/// same names in the same order (`FunctionLibrary.head`); tests compare both sides. Names do not travel: a map would
/// cost Redis 1.5 µs more.
///
/// A new field has a default on both sides and stands last. A caller of an older version omits it, and a function of an
/// older version ignores it, so services of two versions can share one Redis.
package protocol FunctionCall: Sendable {
    /// The function's name.
    static var function: String { get }
    /// True when the call is sent as `FCALL_RO`, which a function without the flag `no-writes` refuses.
    static var isReadOnly: Bool { get }
    /// The keys, all of one slot.
    var keys: [String] { get }
    /// Sets every field.
    func set(_ fields: inout CallFields)
}

extension FunctionCall {
    package static var isReadOnly: Bool { false }

    /// Sets nothing: the function has no fields.
    package func set(_ fields: inout CallFields) {}

    /// The command that performs the call.
    package var command: RedisCommand {
        var fields = CallFields()
        self.set(&fields)
        return RedisCommand.call(
            Self.function,
            keys: self.keys,
            arguments: fields.arguments,
            readOnly: Self.isReadOnly,
        )
    }

    /// The fields that the call declares, in the order of the function's parameters.
    package var declaredFields: [DeclaredField] {
        var fields = CallFields()
        fields.declared = []
        self.set(&fields)
        let declared = fields.declared ?? []
        return declared.filter { $0.kind == .bulk } + declared.filter { $0.kind == .required }
            + declared.filter { $0.kind == .defaulted || $0.kind == .optional }
    }
}

/// Describes a field of a function, as one side declares it.
package struct DeclaredField: Hashable, Sendable {
    /// The kinds of fields, by what a call without the field means.
    package enum Kind: Hashable, Sendable {
        /// A list of messages, each an argument of its own.
        case bulk
        /// Every call has the field.
        case required
        /// The field has a default.
        case defaulted
        /// The field is nil or false by default.
        case optional
    }

    /// The field's name.
    package var name: String
    /// The field's kind.
    package var kind: Kind

    /// Creates a description.
    package init(_ name: String, _ kind: Kind) {
        self.name = name
        self.kind = kind
    }
}

extension RedisClient {
    /// Calls a function of ours on the server of a tag, and repeats the call after a transient error.
    package func call(
        _ call: some FunctionCall,
        on tag: HashTag,
        options: Options = .idempotent,
    ) async throws(RedisError) -> RESPReply {
        try await self.send(call.command, on: tag, options: options)
    }
}

/// The fields of a call, packed as they are set.
///
/// Its generic functions are inlinable, because each field of a call would otherwise be set by unspecialized code.
package struct CallFields: Sendable {
    @usableFromInline var required: [UInt8] = []
    @usableFromInline var others: [UInt8] = []
    /// The bytes of `others` up to the last field that differs from its default: the rest is omitted.
    @usableFromInline var othersCount = 0
    private var bulk: [[UInt8]] = []
    /// The fields that were set; nil when nobody asked for them.
    @usableFromInline var declared: [DeclaredField]?

    init() { self.required.reserveCapacity(256) }

    /// The arguments of the call.
    var arguments: [RedisArgument] {
        let packed = self.othersCount == 0 ? self.required : self.required + self.others.prefix(self.othersCount)
        guard !self.bulk.isEmpty else { return packed.isEmpty ? [] : [.bytes(packed)] }
        return [.bytes(packed)] + self.bulk.map { .bytes($0) }
    }

    /// Sets a required field.
    @inlinable
    package mutating func set(_ name: String, _ value: some CallValue) {
        self.declared?.append(DeclaredField(name, .required))
        value.pack(into: &self.required)
    }

    /// Sets a field that has a default, which the function must share.
    @inlinable
    package mutating func set<Value: CallValue & Equatable>(_ name: String, _ value: Value, default: Value) {
        self.declared?.append(DeclaredField(name, (`default` as? Bool) == false ? .optional : .defaulted))
        if value == `default` { self.appendDefault() } else { self.append(value) }
    }

    /// Sets a field that is nil by default.
    @inlinable
    package mutating func set<Value: CallValue>(_ name: String, optional value: Value?) {
        self.declared?.append(DeclaredField(name, .optional))
        if let value { self.append(value) } else { self.appendDefault() }
    }

    /// Sets a list of many or large messages: each is an argument of its own, which costs Redis less.
    package mutating func setBulk(_ name: String, _ messages: [[UInt8]]) {
        precondition(self.bulk.isEmpty, "a call has only one list of messages")
        self.declared?.append(DeclaredField(name, .bulk))
        self.bulk = messages
    }

    @usableFromInline
    mutating func appendDefault() { self.others.append(0xc0) }

    @inlinable
    mutating func append(_ value: some CallValue) {
        value.pack(into: &self.others)
        self.othersCount = self.others.count
    }
}

/// A value that a field of a call can hold.
package protocol CallValue {
    /// Appends the value as MessagePack.
    func pack(into bytes: inout [UInt8])
}

extension String: CallValue {
    package func pack(into bytes: inout [UInt8]) {
        packHead(ofBytes: self.utf8.count, into: &bytes)
        bytes.append(contentsOf: self.utf8)
    }
}

/// Bytes as a field of a call: a Lua string, like text.
package struct CallBytes: CallValue, Hashable, Sendable {
    private let bytes: [UInt8]

    /// Wraps bytes.
    package init(_ bytes: [UInt8]) { self.bytes = bytes }

    package func pack(into bytes: inout [UInt8]) {
        packHead(ofBytes: self.bytes.count, into: &bytes)
        bytes.append(contentsOf: self.bytes)
    }
}

extension CallBytes: ExpressibleByArrayLiteral {
    package init(arrayLiteral bytes: UInt8...) { self.bytes = bytes }
}

extension Int64: CallValue {
    /// Appends the number; Lua's numbers are doubles, exact up to 2^53.
    package func pack(into bytes: inout [UInt8]) {
        assert(self.magnitude <= 1 << 53, "Lua cannot represent the number exactly")
        switch self {
        case 0..<128: bytes.append(UInt8(self))
        case -32..<0: bytes.append(UInt8(bitPattern: Int8(self)))
        default:
            bytes.append(0xd3)
            for shift in stride(from: 56, through: 0, by: -8) {
                bytes.append(UInt8(truncatingIfNeeded: self >> Int64(shift)))
            }
        }
    }
}

extension Int: CallValue {
    package func pack(into bytes: inout [UInt8]) { Int64(self).pack(into: &bytes) }
}

extension UInt32: CallValue {
    package func pack(into bytes: inout [UInt8]) { Int64(self).pack(into: &bytes) }
}

extension Double: CallValue {
    package func pack(into bytes: inout [UInt8]) {
        bytes.append(0xcb)
        for shift in stride(from: 56, through: 0, by: -8) {
            bytes.append(UInt8(truncatingIfNeeded: self.bitPattern >> UInt64(shift)))
        }
    }
}

extension Bool: CallValue {
    package func pack(into bytes: inout [UInt8]) { bytes.append(self ? 0xc3 : 0xc2) }
}

extension Array: CallValue where Element: CallValue {
    package func pack(into bytes: inout [UInt8]) {
        if self.count < 16 {
            bytes.append(0x90 | UInt8(self.count))
        } else {
            precondition(self.count <= UInt16.max, "the list is too long for a field")
            bytes += [0xdc, UInt8(self.count >> 8), UInt8(self.count & 0xff)]
        }
        for element in self { element.pack(into: &bytes) }
    }
}

private func packHead(ofBytes count: Int, into bytes: inout [UInt8]) {
    switch count {
    case ..<32: bytes.append(0xa0 | UInt8(count))
    case ..<256: bytes += [0xd9, UInt8(count)]
    case ..<65_536: bytes += [0xda, UInt8(count >> 8), UInt8(count & 0xff)]
    default:
        bytes.append(0xdb)
        for shift in [24, 16, 8, 0] { bytes.append(UInt8(truncatingIfNeeded: count >> shift)) }
    }
}

extension FunctionLibrary {
    /// The text that begins every library: the Lua side of ``FunctionCall``.
    static let head = """
        -- The default of a list that a call leaves out.
        local none = {}

        -- Texts of small whole numbers, each as soon as it was asked for: buckets, slabs and fields have them.
        local digit_texts, digit_texts_max = {}, 1024

        -- Returns a whole number as text. Lua and Redis by themselves write it as one that may have a fraction, which takes several times as
        -- long.
        local function digits(number)
            local text = digit_texts[number]
            if text then return text end
            text = string.format('%d', number)
            if number >= 0 and number < digit_texts_max then digit_texts[number] = text end
            return text
        end

        -- Registers a function that is called with fields. Its declaration has
        --   name      the function's name
        --   flags     as Redis has them
        --   required  how many of the fields every call must have; the rest are nil in a call of a version that does not know them
        --   has_bulk  whether messages follow the fields as arguments of their own, which is cheaper for many or large ones; `run` has them as a
        --             list before the fields
        --   run       what the function does with the keys and the fields, which are its parameters
        local function register_function(declaration)
            local name, required, run = declaration.name, declaration.required or 0, declaration.run
            local function check(...)
                if select('#', ...) < required then
                    error({err = 'ERR ' .. name .. ': the call has too few fields'})
                end
                return ...
            end
            -- False when the server certainly is not part of a Redis Cluster; nil until the first call has asked. It never changes while
            -- the server runs.
            local may_be_cluster
            -- Refuses the call before it has written anything when its slot is being moved to another server: the key, which never
            -- exists, is then found on neither. Without it a function that names keys by itself would fail in the middle.
            local function check_slot(keys)
                if may_be_cluster == nil then
                    local answer = redis.pcall('CLUSTER', 'NODES')
                    may_be_cluster = not (type(answer) == 'table' and answer.err
                        and string.find(answer.err, 'cluster support disabled', 1, true))
                end
                if not may_be_cluster then
                    return
                end
                local tag = keys[1] and string.match(keys[1], '^%b{}')
                if tag then
                    redis.call('EXISTS', tag .. '~')
                end
            end
            local function call(keys, args)
                check_slot(keys)
                if not args[1] then
                    return run(keys, check())
                end
                return run(keys, check(cmsgpack.unpack(args[1])))
            end
            local function call_with_bulk(keys, args)
                check_slot(keys)
                local fields = table.remove(args, 1)
                return run(keys, args, check(cmsgpack.unpack(fields)))
            end
            redis.register_function{
                function_name = name,
                flags = declaration.flags or {},
                callback = declaration.has_bulk and call_with_bulk or call,
            }
        end

        """
}
