public import NIOCore

/// One argument of a command.
public enum RedisArgument: Sendable, Hashable {
    /// Text, encoded as UTF-8.
    case text(String)
    /// Bytes.
    case bytes([UInt8])
    /// A buffer, which is copied only once, into the command.
    case buffer(ByteBuffer)
    /// A number, in decimal digits.
    case integer(Int64)

    /// Creates an argument from a number.
    public static func integer(_ number: Int) -> RedisArgument { .integer(Int64(number)) }

    /// The maximum bytes of the encoded argument, for reserving memory.
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

    /// Creates a number.
    public init(integerLiteral number: Int64) { self = .integer(number) }
}

/// Represents one command, encoded at creation into one buffer, whatever its arguments.
public struct RedisCommand: Sendable {
    /// The bytes that are sent to the server.
    public let encoded: ByteBuffer
    /// The command's name in lower case, as metrics show it.
    let label: String
    /// The function that the command calls; nil when it is not a call.
    let function: String?
    /// The command's bytes on the wire.
    public var byteCount: Int { self.encoded.readableBytes }

    /// Creates a command from a name and arguments: `RedisCommand("XADD", .text(key), "*", "m", .bytes(message))`.
    public init(_ name: String, _ arguments: RedisArgument...) {
        self.init(name, arguments)
    }

    /// Creates a command from a name and arguments.
    public init(_ name: String, _ arguments: [RedisArgument]) {
        let reserve = arguments.reduce(name.utf8.count + 8) { $0 + $1.byteCountMax + 8 }
        var encoder = RESPEncoder(argumentCount: arguments.count + 1, reservingBytes: reserve)
        encoder.append(name)
        for argument in arguments { encoder.append(argument) }
        self.init(encoder, label: name.lowercased())
    }

    /// Creates a command from an encoder's bytes. Traps when arguments are missing.
    ///
    /// - Parameters:
    ///   - label: the command's name in lower case.
    ///   - function: the function that it calls; nil when it is not a call.
    public init(_ encoder: RESPEncoder, label: String, function: String? = nil) {
        precondition(encoder.isComplete, "fewer arguments than declared")
        self.encoded = encoder.buffer
        self.label = label
        self.function = function
    }

    /// Creates the call of a function of ours.
    ///
    /// - Parameters:
    ///   - function: the function's name.
    ///   - keys: the keys, all of one slot.
    ///   - arguments: the further arguments.
    ///   - readOnly: when true, the call is sent as `FCALL_RO`, which a function without the flag `no-writes` refuses.
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
