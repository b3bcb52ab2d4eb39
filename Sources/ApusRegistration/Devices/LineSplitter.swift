/// Lines out of bytes that come in pieces: those of NDJSON end with a line feed, the last one with or without. Pure.
package struct LineSplitter {
    /// A line.
    package struct Line: Hashable {
        /// From 1; empty lines count, but are left out.
        package let number: Int
        /// Without its end; nil: it is too long, or stands beyond the last line that is read.
        package let bytes: [UInt8]?
        /// Whether it is beyond the last line that is read.
        package var isBeyond = false
    }

    private let lineBytesMax: Int
    private let linesMax: Int
    private var current: [UInt8] = []
    private var isTooLong = false
    private var number = 1
    private var waiting: [Line] = []
    private var firstWaiting = 0

    /// Whether nothing more is read.
    package private(set) var isOver = false

    /// Reads lines of at most that many bytes, and that many of them.
    package init(lineBytesMax: Int, linesMax: Int) {
        self.lineBytesMax = lineBytesMax
        self.linesMax = linesMax
    }

    /// Lines that nobody took yet.
    package var waitingCount: Int { self.waiting.count - self.firstWaiting }

    /// The first of them.
    package var next: Line? { self.waitingCount > 0 ? self.waiting[self.firstWaiting] : nil }

    /// Takes it away.
    package mutating func removeNext() {
        precondition(self.waitingCount > 0, "there is a line to take")
        self.firstWaiting += 1
        if self.firstWaiting == self.waiting.count {
            self.waiting.removeAll(keepingCapacity: true)
            self.firstWaiting = 0
        }
    }

    /// More bytes.
    package mutating func append(_ bytes: some Collection<UInt8>) {
        var rest = bytes[...]
        while !self.isOver, let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
            self.take(rest[..<end])
            self.endLine()
            rest = rest[rest.index(after: end)...]
        }
        if !self.isOver { self.take(rest) }
    }

    /// No more bytes.
    package mutating func finish() {
        guard !self.isOver else { return }
        self.endLine()
        self.isOver = true
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
            if self.number > self.linesMax {
                self.waiting.append(Line(number: self.number, bytes: nil, isBeyond: true))
                self.isOver = true
            } else {
                self.waiting.append(Line(number: self.number, bytes: self.isTooLong ? nil : self.current))
            }
        }
        self.number += 1
        self.current.removeAll(keepingCapacity: true)
        self.isTooLong = false
    }
}
