internal import ApusCore

/// Writes flat JSON objects, one per line, into one growing buffer.
struct LineWriter {
    private(set) var bytes: [UInt8] = []
    private var isFirst = true

    mutating func begin() {
        self.bytes.append(0x7b)
        self.isFirst = true
    }

    mutating func end() { self.bytes.append(contentsOf: [0x7d, 0x0a]) }

    private mutating func name(_ name: String) {
        if !self.isFirst { self.bytes.append(0x2c) }
        self.isFirst = false
        JSONWriter.append(string: name, to: &self.bytes)
        self.bytes.append(0x3a)
    }

    mutating func member(_ name: String, _ text: String) {
        self.name(name)
        JSONWriter.append(string: text, to: &self.bytes)
    }

    mutating func member(_ name: String, _ value: Int64) {
        self.name(name)
        self.bytes.append(contentsOf: String(value).utf8)
    }

    mutating func take() -> [UInt8] {
        defer { self.bytes = [] }
        return self.bytes
    }
}
