package import ApusCore

/// Changes inputs at random, the same ones for the same seed.
package struct Mutator {
    /// The maximum length of an input.
    package static let bytesMax = 4_096

    private let corpus: [[UInt8]]
    private let words: [[UInt8]]
    private var generator: SeededGenerator

    /// - Parameters:
    ///   - corpus: the inputs to change; there must be some.
    ///   - words: words to insert.
    package init(corpus: [[UInt8]], words: [String], generator: SeededGenerator) {
        precondition(!corpus.isEmpty)
        self.corpus = corpus
        self.words = words.map { Array($0.utf8) }
        self.generator = generator
    }

    /// Returns one of the corpus, changed in one to four places.
    package mutating func next() -> [UInt8] {
        var bytes = self.corpus[self.pick(self.corpus.count)]
        for _ in 0...self.pick(4) { self.change(&bytes) }
        return Array(bytes.prefix(Self.bytesMax))
    }

    private mutating func change(_ bytes: inout [UInt8]) {
        guard !bytes.isEmpty else { return bytes.append(UInt8(self.pick(256))) }
        let place = self.pick(bytes.count)
        switch self.pick(9) {
        case 0: bytes[place] ^= 1 << UInt8(self.pick(8))
        case 1: bytes[place] = UInt8(self.pick(256))
        case 2: bytes[place] = [0x00, 0x01, 0x7f, 0x80, 0xff][self.pick(5)]
        case 3: bytes.removeSubrange(place...)
        case 4: bytes.removeSubrange(place..<min(bytes.count, place + 1 + self.pick(8)))
        case 5: self.insert(self.piece(of: bytes), into: &bytes)
        case 6: self.insert(self.piece(of: self.corpus[self.pick(self.corpus.count)]), into: &bytes)
        case 7 where !self.words.isEmpty: self.insert(self.words[self.pick(self.words.count)][...], into: &bytes)
        default:
            // A number of many bytes takes the place of one.
            let long = [UInt8](repeating: 0xff, count: 1 + self.pick(10)) + [UInt8(self.pick(128))]
            bytes.replaceSubrange(place..<(place + 1), with: long)
        }
    }

    private mutating func piece(of bytes: [UInt8]) -> ArraySlice<UInt8> {
        guard !bytes.isEmpty else { return [] }
        let start = self.pick(bytes.count)
        return bytes[start..<min(bytes.count, start + 1 + self.pick(32))]
    }

    private mutating func insert(_ piece: ArraySlice<UInt8>, into bytes: inout [UInt8]) {
        bytes.insert(contentsOf: piece, at: self.pick(bytes.count + 1))
    }

    private mutating func pick(_ count: Int) -> Int { Int(self.generator.next() % UInt64(max(count, 1))) }
}
