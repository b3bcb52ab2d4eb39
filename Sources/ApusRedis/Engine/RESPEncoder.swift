public import NIOCore

/// Writes one command as bytes: `*<arguments>\r\n`, then `$<length>\r\n<bytes>\r\n` for each.
///
/// Binary safe; everything goes straight into one buffer. The number of arguments is promised first.
///
/// Source: https://redis.io/docs/latest/develop/reference/protocol-spec/
public struct RESPEncoder: Sendable {
    /// What was written.
    public private(set) var buffer: ByteBuffer
    private var missing: Int

    /// Starts a command of that many arguments, its name counted.
    public init(argumentCount: Int, reservingBytes: Int = 0) {
        precondition(argumentCount > 0, "a command has a name")
        self.buffer = ByteBufferAllocator().buffer(capacity: 16 + reservingBytes + argumentCount * 8)
        self.missing = argumentCount
        self.buffer.writeHead(0x2a, argumentCount)
    }

    /// Whether as many arguments were written as promised.
    public var isComplete: Bool { self.missing == 0 }

    /// The next argument.
    public mutating func append(_ bytes: Span<UInt8>) {
        self.begin(byteCount: bytes.count)
        unsafe bytes.withUnsafeBufferPointer { source in _ = unsafe self.buffer.writeBytes(source) }
        self.buffer.writeStaticString("\r\n")
    }

    /// The next argument.
    public mutating func append(_ bytes: [UInt8]) {
        self.begin(byteCount: bytes.count)
        self.buffer.writeBytes(bytes)
        self.buffer.writeStaticString("\r\n")
    }

    /// The next argument.
    public mutating func append(_ text: String) {
        self.begin(byteCount: text.utf8.count)
        self.buffer.writeString(text)
        self.buffer.writeStaticString("\r\n")
    }

    /// The next argument.
    public mutating func append(_ bytes: ByteBuffer) {
        self.begin(byteCount: bytes.readableBytes)
        self.buffer.writeImmutableBuffer(bytes)
        self.buffer.writeStaticString("\r\n")
    }

    /// The next argument: a number, in decimal digits.
    public mutating func append(_ number: Int64) {
        var digits = 1
        var rest = number.magnitude
        while rest >= 10 {
            rest /= 10
            digits += 1
        }
        self.begin(byteCount: number < 0 ? digits + 1 : digits)
        if number < 0 { self.buffer.writeInteger(UInt8(0x2d)) }
        self.buffer.writeDecimal(number.magnitude)
        self.buffer.writeStaticString("\r\n")
    }

    /// The next argument.
    public mutating func append(_ argument: RedisArgument) {
        switch argument {
        case .text(let text): self.append(text)
        case .bytes(let bytes): self.append(bytes)
        case .buffer(let buffer): self.append(buffer)
        case .integer(let number): self.append(number)
        }
    }

    private mutating func begin(byteCount: Int) {
        precondition(self.missing > 0, "more arguments than promised")
        self.missing -= 1
        self.buffer.writeHead(0x24, byteCount)
    }
}

extension ByteBuffer {
    /// A type byte, a number and the end of the line.
    fileprivate mutating func writeHead(_ type: UInt8, _ number: Int) {
        self.writeInteger(type)
        self.writeDecimal(UInt64(number))
        self.writeStaticString("\r\n")
    }

    fileprivate mutating func writeDecimal(_ number: UInt64) {
        guard number >= 10 else {
            self.writeInteger(UInt8(truncatingIfNeeded: 0x30 + number))
            return
        }
        unsafe withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 20) { digits in
            var start = 20
            var rest = number
            while rest > 0 {
                start -= 1
                unsafe digits[start] = UInt8(truncatingIfNeeded: 0x30 + rest % 10)
                rest /= 10
            }
            _ = unsafe self.writeBytes(UnsafeBufferPointer(rebasing: UnsafeBufferPointer(digits)[start..<20]))
        }
    }
}
