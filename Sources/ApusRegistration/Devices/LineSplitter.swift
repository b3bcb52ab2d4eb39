/// Lines out of bytes that come in pieces: those of NDJSON end with a line feed, the last one with or without. Pure.
package struct LineSplitter {
    /// A line.
    package struct Line: Hashable {
        /// The line's number, from 1; empty lines count, but are left out.
        package let number: Int
        /// Without its end; nil: it is too long.
        package let bytes: [UInt8]?
    }

    private let lineBytesMax: Int
    private var current: [UInt8] = []
    private var isTooLong = false
    private var number = 1
    private var waiting: [Line] = []

    /// Reads lines of at most that many bytes.
    package init(lineBytesMax: Int) { self.lineBytesMax = lineBytesMax }

    /// Takes the lines that came since the last time.
    package mutating func take() -> [Line] {
        defer { self.waiting.removeAll(keepingCapacity: true) }
        return self.waiting
    }

    /// Takes more bytes, until so many lines wait: a line takes far more memory than the bytes of a short one.
    ///
    /// - Returns: the bytes that are left.
    package mutating func append<Bytes: Collection<UInt8>>(
        _ bytes: Bytes,
        linesMax: Int,
    ) -> Bytes.SubSequence {
        precondition(linesMax > 0)
        var rest = bytes[...]
        while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
            self.take(rest[..<end])
            self.endLine()
            rest = rest[rest.index(after: end)...]
            if self.waiting.count >= linesMax { return rest }
        }
        self.take(rest)
        return rest[rest.endIndex...]
    }

    /// Ends the text: there are no more bytes.
    package mutating func finish() {
        self.endLine()
    }

    private mutating func take(_ bytes: some Collection<UInt8>) {
        guard !self.isTooLong else { return }
        guard self.current.count + bytes.count <= self.lineBytesMax else {
            self.isTooLong = true
            self.current.removeAll()
            return
        }
        self.current += bytes
    }

    private mutating func endLine() {
        if self.current.last == UInt8(ascii: "\r") { self.current.removeLast() }
        let isEmpty = self.current.allSatisfy { $0 == 0x20 || $0 == 0x09 }
        if self.isTooLong || !isEmpty {
            self.waiting.append(Line(number: self.number, bytes: self.isTooLong ? nil : self.current))
        }
        self.number += 1
        self.current.removeAll(keepingCapacity: true)
        self.isTooLong = false
    }
}
