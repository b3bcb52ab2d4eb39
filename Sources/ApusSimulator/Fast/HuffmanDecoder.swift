/// Decodes HPACK's Huffman code (RFC 7541 Appendix B), which is canonical: the lengths of the codes define it.
enum HuffmanDecoder {
    /// The bits of each symbol's code; the last symbol is EOS.
    private static let lengths: [UInt8] = [
        13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
        28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
        6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
        5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
        13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
        7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
        15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
        6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
        20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
        24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
        22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
        21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
        26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
        19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
        20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
        26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
        30,
    ]

    private static let shortest = 5
    private static let longest = 30
    private static let quickBits = 10
    private static let endOfString: UInt16 = 256

    /// Holds the tables that decode the code.
    private final class Tables: Sendable {
        /// The first code, the number of codes and the start of their symbols, by length.
        let first: [UInt32]
        let count: [UInt32]
        let offset: [Int]
        let symbols: [UInt16]
        /// The symbol and length of a code by the next ten bits, or 0 for a longer code.
        let quick: [UInt16]

        init() {
            var first = [UInt32](repeating: 0, count: HuffmanDecoder.longest + 1)
            var count = first
            var offset = [Int](repeating: 0, count: HuffmanDecoder.longest + 1)
            var symbols: [UInt16] = []
            var quick = [UInt16](repeating: 0, count: 1 << HuffmanDecoder.quickBits)
            var code: UInt32 = 0
            for length in HuffmanDecoder.shortest...HuffmanDecoder.longest {
                code <<= 1
                first[length] = code
                offset[length] = symbols.count
                for (symbol, bits) in HuffmanDecoder.lengths.enumerated() where Int(bits) == length {
                    symbols.append(UInt16(symbol))
                    count[length] += 1
                    if length <= HuffmanDecoder.quickBits {
                        let rest = HuffmanDecoder.quickBits - length
                        let start = Int(code) << rest
                        for index in start..<start + (1 << rest) { quick[index] = UInt16(symbol) << 4 | UInt16(length) }
                    }
                    code += 1
                }
            }
            precondition(code == 1 << HuffmanDecoder.longest, "the code is complete")
            self.first = first
            self.count = count
            self.offset = offset
            self.symbols = symbols
            self.quick = quick
        }
    }

    private static let tables = Tables()

    /// Appends the text to `output`; returns false when it is malformed.
    static func decode(_ input: Span<UInt8>, _ range: Range<Int>, into output: inout [UInt8]) -> Bool {
        let tables = Self.tables
        var bits: UInt64 = 0
        var available = 0
        var index = range.lowerBound
        while true {
            while available <= 56, index < range.upperBound {
                bits = bits << 8 | UInt64(input[index])
                available += 8
                index += 1
            }
            // Only the beginning of EOS may remain: fewer than eight ones.
            if available < 8, index == range.upperBound,
                bits & ((1 << UInt64(available)) - 1) == (1 << UInt64(available)) - 1
            {
                return true
            }
            guard let (symbol, length) = Self.next(tables, bits, available) else { return false }
            guard symbol != Self.endOfString else { return false }
            output.append(UInt8(truncatingIfNeeded: symbol))
            available -= length
        }
    }

    @inline(__always)
    private static func next(_ tables: Tables, _ bits: UInt64, _ available: Int) -> (symbol: UInt16, length: Int)? {
        let window =
            available >= Self.quickBits
            ? bits >> UInt64(available - Self.quickBits) : bits << UInt64(Self.quickBits - available)
        let entry = tables.quick[Int(window & (1 << UInt64(Self.quickBits) - 1))]
        if entry != 0, Int(entry & 15) <= available { return (entry >> 4, Int(entry & 15)) }
        var length = Self.quickBits + 1
        while length <= min(available, Self.longest) {
            let code = UInt32(truncatingIfNeeded: bits >> UInt64(available - length) & ((1 << UInt64(length)) - 1))
            let place = Int64(code) - Int64(tables.first[length])
            if place >= 0, place < Int64(tables.count[length]) {
                return (tables.symbols[tables.offset[length] + Int(place)], length)
            }
            length += 1
        }
        return nil
    }
}
