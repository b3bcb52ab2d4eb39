public import NIOCore

/// Encodes one command as bytes: `*<arguments>\r\n`, then `$<length>\r\n<bytes>\r\n` for each argument.
///
/// It is binary safe and writes into a single buffer. The number of arguments is declared first.
///
/// Source: https://redis.io/docs/latest/develop/reference/protocol-spec/
public struct RESPEncoder: Sendable {
    /// The bytes written so far.
    public private(set) var buffer: ByteBuffer
    private var missing: Int

    /// Starts a command with the given number of arguments, which includes its name.
    public init(argumentCount: Int, reservingBytes: Int = 0) {
        precondition(argumentCount > 0, "a command has a name")
        self.buffer = ByteBufferAllocator().buffer(capacity: 16 + reservingBytes + argumentCount * 8)
        self.missing = argumentCount
        self.buffer.writeArrayHead(argumentCount)
    }

    /// True when as many arguments were written as declared.
    public var isComplete: Bool { self.missing == 0 }

    /// Appends an argument.
    public mutating func append(_ bytes: Span<UInt8>) {
        precondition(self.missing > 0, "more arguments than declared")
        self.missing -= 1
        self.buffer.writeArgument(bytes)
    }

    /// Appends an argument.
    public mutating func append(_ bytes: [UInt8]) { self.append(bytes.span) }

    /// Appends an argument.
    public mutating func append(_ text: String) { self.append(text.utf8.span) }

    /// Appends an argument.
    public mutating func append(_ bytes: ByteBuffer) { self.append(bytes.readableBytesUInt8Span) }

    /// Appends a number as an argument, in decimal digits.
    public mutating func append(_ number: Int64) {
        unsafe withUnsafeTemporaryAllocation(of: UInt8.self, capacity: RESPNumber.digitsMax + 1) { digits in
            var start = unsafe RESPNumber.write(number.magnitude, before: digits.count, of: digits)
            if number < 0 {
                start -= 1
                unsafe digits[start] = 0x2d
            }
            unsafe self.append(Span(_unsafeElements: UnsafeBufferPointer(rebasing: digits[start...])))
        }
    }

    /// Appends an argument.
    public mutating func append(_ argument: RedisArgument) {
        switch argument {
        case .text(let text): self.append(text)
        case .bytes(let bytes): self.append(bytes)
        case .buffer(let buffer): self.append(buffer)
        case .integer(let number): self.append(number)
        }
    }
}

extension ByteBuffer {
    /// Writes `*<number>\r\n`.
    fileprivate mutating func writeArrayHead(_ count: Int) {
        unsafe self.writeWithUnsafeMutableBytes(minimumWritableBytes: RESPNumber.digitsMax + 3) { bytes in
            unsafe RESPNumber.writeLine(0x2a, count, to: bytes)
        }
    }

    /// Writes `$<length>\r\n<bytes>\r\n` in one step.
    fileprivate mutating func writeArgument(_ argument: Span<UInt8>) {
        unsafe self.writeWithUnsafeMutableBytes(minimumWritableBytes: RESPNumber.digitsMax + 5 + argument.count) {
            bytes in
            let head = unsafe RESPNumber.writeLine(0x24, argument.count, to: bytes)
            let end = head + argument.count
            unsafe argument.withUnsafeBytes { source in
                unsafe UnsafeMutableRawBufferPointer(rebasing: bytes[head..<end]).copyMemory(from: source)
            }
            unsafe bytes[end] = 0x0d
            unsafe bytes[end + 1] = 0x0a
            return end + 2
        }
    }
}

/// Writes decimal digits.
private enum RESPNumber {
    /// The number of digits of the largest number.
    static let digitsMax = 20

    /// Writes a number's digits so that they end before `end`; returns the index at which they begin.
    @unsafe @inline(__always)
    static func write(_ number: UInt64, before end: Int, of bytes: UnsafeMutableBufferPointer<UInt8>) -> Int {
        var (start, rest) = (end, number)
        repeat {
            start -= 1
            unsafe bytes[start] = UInt8(truncatingIfNeeded: 0x30 + rest % 10)
            rest /= 10
        } while rest > 0
        return start
    }

    /// Writes a type byte, a number and the line's end; returns the number of bytes written.
    @unsafe @inline(__always)
    static func writeLine(_ type: UInt8, _ number: Int, to bytes: UnsafeMutableRawBufferPointer) -> Int {
        var (digits, unit) = (1, 1)
        while number / unit >= 10 {
            digits += 1
            unit *= 10
        }
        unsafe bytes[0] = type
        for index in 0..<digits {
            unsafe bytes[1 + index] = UInt8(truncatingIfNeeded: 0x30 + number / unit % 10)
            unit /= 10
        }
        unsafe bytes[1 + digits] = 0x0d
        unsafe bytes[2 + digits] = 0x0a
        return digits + 3
    }
}
