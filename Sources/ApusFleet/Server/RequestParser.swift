/// Parses the commands that a client sends: lists of bytes, as RESP has them. It keeps what is incomplete.
struct RequestParser {
    /// A reason why the bytes are no commands; the connection is closed with it.
    struct Malformed: Error, Hashable, CustomStringConvertible {
        let text: String

        var description: String { self.text }
    }

    /// The largest argument, as Redis has it by default.
    static let argumentBytesMax = 512 * 1024 * 1024
    /// The maximum of arguments of a command.
    static let argumentsMax = 1024 * 1024

    private var buffer: Bytes = []
    private var position = 0

    /// Takes bytes as they arrive.
    mutating func append(_ bytes: some Sequence<UInt8>) {
        self.buffer.removeFirst(self.position)
        self.position = 0
        self.buffer += bytes
    }

    /// Returns the next command; nil until it is complete.
    mutating func next() throws(Malformed) -> [Bytes]? {
        var place = self.position
        guard let count = try self.number(after: "*", at: &place, max: Self.argumentsMax, name: "multibulk") else {
            return nil
        }
        var arguments: [Bytes] = []
        arguments.reserveCapacity(max(0, min(count, 64)))
        while arguments.count < count {
            guard let length = try self.number(after: "$", at: &place, max: Self.argumentBytesMax, name: "bulk") else {
                return nil
            }
            guard length >= 0 else { throw Malformed(text: "ERR Protocol error: invalid bulk length") }
            guard self.buffer.count >= place + length + 2 else { return nil }
            arguments.append(Bytes(self.buffer[place..<(place + length)]))
            place += length + 2
        }
        self.position = place
        return arguments
    }

    /// Reads a line of one to nine digits; nil when the line is another or incomplete.
    private func shortNumber(at place: Int) -> (number: Int, next: Int)? {
        var number = 0
        for index in place..<min(place + 10, self.buffer.count) {
            let byte = self.buffer[index]
            if byte == 0x0d {
                return index > place && index + 1 < self.buffer.count ? (number, index + 2) : nil
            }
            guard (0x30...0x39).contains(byte) else { return nil }
            number = number * 10 + Int(byte - 0x30)
        }
        return nil
    }

    /// Reads a line of a sign and a number; nil when the line is incomplete.
    private func number(
        after sign: Unicode.Scalar,
        at place: inout Int,
        max: Int,
        name: String,
    ) throws(Malformed) -> Int? {
        guard place < self.buffer.count else { return nil }
        guard self.buffer[place] == UInt8(ascii: sign) else {
            let found = Character(UnicodeScalar(self.buffer[place]))
            throw Malformed(text: "ERR Protocol error: expected '\(sign)', got '\(found)'")
        }
        if let (short, next) = self.shortNumber(at: place + 1), short <= max {
            place = next
            return short
        }
        guard let end = self.buffer[place...].prefix(32).firstIndex(of: 0x0d), end + 1 < self.buffer.count else {
            if self.buffer.count - place > 32 { throw Malformed(text: "ERR Protocol error: invalid \(name) length") }
            return nil
        }
        let digits = String(decoding: self.buffer[(place + 1)..<end], as: UTF8.self)
        guard let number = Int(digits), number <= max else {
            throw Malformed(text: "ERR Protocol error: invalid \(name) length")
        }
        place = end + 2
        return number
    }
}
