import ApusFuzzing
import Testing

/// Shows that the pass of mutations finds faults: small parsers, each with a fault planted as it occurs in real ones, fail within the number
/// of mutations that every real parser gets, and the same parsers without the fault do not.
@Suite struct PlantedFaultTests {
    /// The parsers that faults are planted in.
    enum Planted: String, CaseIterable, Sendable {
        /// A number of seven bits a byte, as in protobuf: bits beyond the sixty-fourth are dropped instead of refused.
        case longNumber
        /// A text of a length that its first digits give, as in RESP: a length with a plus sign is taken.
        case signedLength
        /// Text written for JSON: only the control characters below the vertical tab are escaped.
        case controlCharacter
        /// Lines that come in pieces: a line end that is the first byte of a piece is lost.
        case splitLine
        /// A list in lists: the depth is checked at its opening only where something precedes it.
        case depth
        /// Characters of two bytes: one that needs a single byte is taken, so the same text has two forms.
        case overlongCharacter
    }

    /// The mutations of each real parser in a run of the tests.
    private static let mutations = 1_500

    @Test(arguments: Planted.allCases)
    func `A planted fault is found, and the sound parser passes`(_ planted: Planted) {
        for seed in [1, 2, 3] as [UInt64] {
            let faulty = Self.target(planted, isFaulty: true)
            let failures = faulty.failures(faulty.seeds, mutations: Self.mutations, seed: seed)
            #expect(!failures.isEmpty, "\(planted) was not found with the seed \(seed)")
            // Inputs of the corpus are those that a parser was written with: they show no fault.
            #expect(failures.allSatisfy { $0.origin.hasPrefix("seed") })
            let sound = Self.target(planted, isFaulty: false)
            let none = sound.failures(sound.seeds, mutations: Self.mutations, seed: seed)
            #expect(none.isEmpty, "\(none.first.map(String.init(describing:)) ?? "")")
        }
    }

    @Test func `A failure has the input that repeats it`() throws {
        let target = Self.target(.longNumber, isFaulty: true)
        let failure = try #require(target.failures(target.seeds, mutations: Self.mutations, seed: 1).first)
        #expect(throws: FuzzFailure.self) { try target.run(failure.input) }
        #expect(failure.description.contains("seed 1, iteration"))
    }

    // MARK: The parsers

    private static func target(_ planted: Planted, isFaulty: Bool) -> FuzzTarget {
        switch planted {
        case .longNumber:
            FuzzTarget(planted.rawValue, seeds: [[0x01], [0xac, 0x02], [0xff, 0xff, 0xff, 0xff, 0x0f]]) { input in
                guard let (number, count) = Self.number(input, isFaulty: isFaulty) else { return }
                try Self.require(
                    Self.encoded(number, count: count) == Array(input.prefix(count)),
                    "a number is its bytes"
                )
            }
        case .signedLength:
            FuzzTarget(planted.rawValue, words: ["+", "-", "0"], seeds: [Array("3\nabc".utf8), Array("0\n".utf8)]) {
                input in
                guard let text = Self.text(input, isFaulty: isFaulty) else { return }
                let form = Array("\(text.count)\n".utf8) + text
                try Self.require(input.starts(with: form), "a text has one form")
            }
        case .controlCharacter:
            FuzzTarget(planted.rawValue, seeds: [Array("plain".utf8), Array("\"quoted\"".utf8)]) { input in
                let written = Self.escaped(input, isFaulty: isFaulty)
                try Self.require(written.allSatisfy { $0 >= 0x20 }, "JSON holds no control characters")
            }
        case .splitLine:
            FuzzTarget(planted.rawValue, words: ["\n"], seeds: [Array("\u{3}a line\nanother\n".utf8)]) { input in
                guard let size = input.first.map({ Int($0 % 16) + 1 }) else { return }
                let bytes = Array(input.dropFirst())
                let whole = Self.lines(bytes, pieces: max(bytes.count, 1), isFaulty: false)
                let pieces = Self.lines(bytes, pieces: size, isFaulty: isFaulty)
                try Self.require(whole == pieces, "lines do not depend on how they arrive")
            }
        case .depth:
            FuzzTarget(planted.rawValue, words: ["[[", "]"], seeds: [Array("[a[b[c]]]".utf8), Array("[a]".utf8)]) {
                input in
                guard let depth = Self.depth(input, isFaulty: isFaulty) else { return }
                try Self.require(depth <= Self.depthMax, "nothing is deeper than \(Self.depthMax)")
            }
        case .overlongCharacter:
            FuzzTarget(planted.rawValue, words: ["\u{e9}"], seeds: [Array("\u{e9}t\u{e9}".utf8), Array("a".utf8)]) {
                input in
                guard let scalars = Self.scalars(input, isFaulty: isFaulty) else { return }
                var text = String.UnicodeScalarView()
                text.append(contentsOf: scalars)
                try Self.require(Array(String(text).utf8) == input, "a text has one form")
            }
        }
    }

    private static func require(_ holds: Bool, _ property: String) throws {
        guard holds else { throw FuzzFailure(property) }
    }

    private static func number(_ input: [UInt8], isFaulty: Bool) -> (UInt64, count: Int)? {
        var number: UInt64 = 0
        for (index, byte) in input.enumerated() {
            guard index < 10 else { return nil }
            if index == 9, !isFaulty, byte > 1 { return nil }
            number |= UInt64(byte & 0x7f) << UInt64(7 * index)
            if byte < 0x80 { return (number, index + 1) }
        }
        return nil
    }

    /// Writes a number in a given number of bytes, as a long form with zeros is allowed.
    private static func encoded(_ number: UInt64, count: Int) -> [UInt8] {
        (0..<count).map { index in
            let bits = UInt8(truncatingIfNeeded: number >> UInt64(7 * index)) & 0x7f
            return index == count - 1 ? bits : bits | 0x80
        }
    }

    private static func text(_ input: [UInt8], isFaulty: Bool) -> [UInt8]? {
        guard let end = input.firstIndex(of: 0x0a), end < 6 else { return nil }
        let digits = input[..<end]
        let plain = digits.allSatisfy { (0x30...0x39).contains($0) } && (digits.first != 0x30 || digits.count == 1)
        guard plain || isFaulty, let count = Int(String(decoding: digits, as: UTF8.self)), count >= 0 else {
            return nil
        }
        let rest = input[(end + 1)...]
        return rest.count < count ? nil : Array(rest.prefix(count))
    }

    private static func escaped(_ input: [UInt8], isFaulty: Bool) -> [UInt8] {
        input.flatMap { byte -> [UInt8] in
            switch byte {
            case 0x0b..<0x20 where isFaulty: [byte]
            case 0..<0x20: Array("\\u00".utf8) + [0x30 + byte / 16, Array("0123456789abcdef".utf8)[Int(byte % 16)]]
            case 0x22, 0x5c: [0x5c, byte]
            default: [byte]
            }
        }
    }

    private static func lines(_ input: [UInt8], pieces: Int, isFaulty: Bool) -> [[UInt8]] {
        var lines: [[UInt8]] = []
        var open: [UInt8] = []
        var rest = input[...]
        while !rest.isEmpty {
            for (index, byte) in rest.prefix(pieces).enumerated() {
                if byte != 0x0a {
                    open.append(byte)
                } else if !isFaulty || index > 0 {
                    lines.append(open)
                    open = []
                }
            }
            rest = rest.dropFirst(pieces)
        }
        return lines + [open]
    }

    private static let depthMax = 4

    private static func depth(_ input: [UInt8], isFaulty: Bool) -> Int? {
        var (depth, deepest) = (0, 0)
        var before: UInt8 = 0
        for byte in input {
            if byte == 0x5b {
                depth += 1
                if depth > Self.depthMax, !isFaulty || before != 0x5b { return nil }
                deepest = max(deepest, depth)
            } else if byte == 0x5d {
                depth = max(0, depth - 1)
            }
            before = byte
        }
        return deepest
    }

    private static func scalars(_ input: [UInt8], isFaulty: Bool) -> [Unicode.Scalar]? {
        var scalars: [Unicode.Scalar] = []
        var rest = input[...]
        while let first = rest.popFirst() {
            if first < 0x80 {
                scalars.append(Unicode.Scalar(first))
            } else {
                // Two bytes are all that this parser knows.
                guard (0xc0...0xdf).contains(first), isFaulty || first >= 0xc2 else { return nil }
                guard let next = rest.popFirst(), (0x80...0xbf).contains(next) else { return nil }
                guard let scalar = Unicode.Scalar(UInt32(first & 0x1f) << 6 | UInt32(next & 0x3f)) else { return nil }
                scalars.append(scalar)
            }
        }
        return scalars
    }
}
