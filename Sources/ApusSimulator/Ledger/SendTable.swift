/// Small numbers for the sends that were seen, from 1.
struct SendTable {
    private var arena = ByteArena()
    private var places: [UInt64] = []
    private var numbers: [TokenDigest: UInt32] = [:]
    private var last: (digest: TokenDigest, number: UInt32)?

    /// How many sends there are.
    var count: Int { self.places.count }

    /// The send's number; 0 for no text. A text beyond ``SimulatorLimits/sendBytesMax`` is cut.
    mutating func number(of send: Span<UInt8>) -> UInt32 {
        guard !send.isEmpty else { return 0 }
        let send = send.extracting(first: min(send.count, SimulatorLimits.sendBytesMax))
        let digest = TokenDigest(send)
        // Requests of one send come in a row.
        if let last, last.digest == digest { return last.number }
        let number: UInt32
        if let known = self.numbers[digest] {
            number = known
        } else {
            self.places.append(self.arena.keep(send))
            number = UInt32(self.places.count)
            self.numbers[digest] = number
        }
        self.last = (digest, number)
        return number
    }

    /// The number of a send that was seen; `UInt32.max` for another.
    func number(named send: String) -> UInt32 {
        let bytes = Array(send.utf8.prefix(SimulatorLimits.sendBytesMax))
        return bytes.isEmpty ? 0 : self.numbers[TokenDigest(bytes.span)] ?? .max
    }

    /// The send of that number; nil for 0.
    func bytes(_ number: UInt32) -> ArraySlice<UInt8>? {
        number == 0 ? nil : self.arena.bytes(at: self.places[Int(number) - 1])
    }
}
