import ApusCore
import Foundation

/// The seed of all random tests here: fixed, so that a run can be repeated; set `APUS_FUZZ_SEED` for another one.
enum FuzzSeed {
    static let value: UInt64 =
        ProcessInfo.processInfo.environment["APUS_FUZZ_SEED"].flatMap { UInt64($0) } ?? 0x6170_7573

    static func generator() -> SeededGenerator { SeededGenerator(seed: self.value) }
}

/// Breaks messages as accidents and attackers do.
enum Mutation {
    /// One of the corpus, changed in one to four places.
    static func mutate(_ corpus: [[UInt8]], _ generator: inout SeededGenerator) -> [UInt8] {
        var bytes = corpus[pick(corpus.count, &generator)]
        for _ in 0...pick(4, &generator) { self.change(&bytes, corpus, &generator) }
        return bytes
    }

    private static func change(_ bytes: inout [UInt8], _ corpus: [[UInt8]], _ generator: inout SeededGenerator) {
        guard !bytes.isEmpty else { return }
        let place = pick(bytes.count, &generator)
        switch pick(8, &generator) {
        case 0: bytes[place] ^= 1 << UInt8(pick(8, &generator))
        case 1: bytes[place] = UInt8(pick(256, &generator))
        case 2: bytes[place] = [0x00, 0x01, 0x7f, 0x80, 0xff][pick(5, &generator)]
        case 3: bytes.removeSubrange(place...)
        case 4: bytes.removeSubrange(place..<min(bytes.count, place + 1 + pick(8, &generator)))
        case 5:
            // A piece of the message a second time.
            let piece = Array(bytes[place..<min(bytes.count, place + 1 + pick(32, &generator))])
            bytes.insert(contentsOf: piece, at: pick(bytes.count + 1, &generator))
        case 6:
            // A piece of another message.
            let other = corpus[pick(corpus.count, &generator)]
            let start = pick(other.count, &generator)
            let piece = other[start..<min(other.count, start + 1 + pick(32, &generator))]
            bytes.insert(contentsOf: piece, at: place)
        default:
            // A number of many bytes where something else was.
            let long = [UInt8](repeating: 0xff, count: 1 + pick(10, &generator)) + [UInt8(pick(128, &generator))]
            bytes.replaceSubrange(place..<(place + 1), with: long)
        }
    }

    private static func pick(_ count: Int, _ generator: inout SeededGenerator) -> Int {
        Int(generator.next() % UInt64(max(count, 1)))
    }
}
