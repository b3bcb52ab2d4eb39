public import NIOCore

/// One argument of a command.
public enum RedisArgument: Sendable, Hashable {
    /// Text, as UTF-8.
    case text(String)
    /// Bytes.
    case bytes([UInt8])
    /// Bytes, without a copy before the one into the command.
    case buffer(ByteBuffer)
    /// A number, in decimal digits.
    case integer(Int64)

    /// A number.
    public static func integer(_ number: Int) -> RedisArgument { .integer(Int64(number)) }

    /// Bytes that it takes, at most: for reserving.
    var byteCountMax: Int {
        switch self {
        case .text(let text): text.utf8.count
        case .bytes(let bytes): bytes.count
        case .buffer(let buffer): buffer.readableBytes
        case .integer: 20
        }
    }
}

extension RedisArgument: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral {
    /// Text.
    public init(stringLiteral text: String) { self = .text(text) }

    /// A number.
    public init(integerLiteral number: Int64) { self = .integer(number) }
}

/// One command, encoded when it is made: whatever its arguments, one buffer.
public struct RedisCommand: Sendable {
    /// The bytes that go to the server.
    public let encoded: ByteBuffer
    /// Its name in small letters, as metrics tell it.
    let label: String
    /// The function that it calls; nil: it is no call.
    let function: String?
    /// Bytes that it takes on the wire.
    public var byteCount: Int { self.encoded.readableBytes }

    /// A command of a name and arguments: `RedisCommand("XADD", .text(key), "*", "m", .bytes(message))`.
    public init(_ name: String, _ arguments: RedisArgument...) {
        self.init(name, arguments)
    }

    /// A command of a name and arguments.
    public init(_ name: String, _ arguments: [RedisArgument]) {
        let reserve = arguments.reduce(name.utf8.count + 8) { $0 + $1.byteCountMax + 8 }
        var encoder = RESPEncoder(argumentCount: arguments.count + 1, reservingBytes: reserve)
        encoder.append(name)
        for argument in arguments { encoder.append(argument) }
        self.init(encoder, label: name.lowercased())
    }

    /// What that encoder wrote. Traps when arguments are missing.
    ///
    /// - Parameters:
    ///   - label: its name in small letters.
    ///   - function: the function that it calls; nil: it is no call.
    public init(_ encoder: RESPEncoder, label: String, function: String? = nil) {
        precondition(encoder.isComplete, "fewer arguments than promised")
        self.encoded = encoder.buffer
        self.label = label
        self.function = function
    }

    /// The call of a function of ours.
    ///
    /// - Parameters:
    ///   - function: its name.
    ///   - keys: all of one slot.
    ///   - arguments: what it takes beside them.
    ///   - readOnly: sent as `FCALL_RO`, which a function without the flag `no-writes` refuses.
    public static func call(
        _ function: String,
        keys: [String],
        arguments: [RedisArgument] = [],
        readOnly: Bool = false,
    ) -> RedisCommand {
        var reserve = function.utf8.count + 64
        for key in keys { reserve += key.utf8.count + 8 }
        for argument in arguments { reserve += argument.byteCountMax + 8 }
        var encoder = RESPEncoder(argumentCount: 3 + keys.count + arguments.count, reservingBytes: reserve)
        encoder.append(readOnly ? "FCALL_RO" : "FCALL")
        encoder.append(function)
        encoder.append(Int64(keys.count))
        for key in keys { encoder.append(key) }
        for argument in arguments { encoder.append(argument) }
        return RedisCommand(encoder, label: readOnly ? "fcall_ro" : "fcall", function: function)
    }
}
