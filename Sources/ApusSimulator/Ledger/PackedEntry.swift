/// An entry of the ledger in exactly 64 bytes.
struct PackedEntry {
    /// The meaning of the words.
    struct Flags: OptionSet {
        let rawValue: UInt8

        /// The token is raw bytes, shown in hexadecimal.
        static let rawToken = Flags(rawValue: 1)
        /// The token is longer than its room: `token.0` is its place in the arena.
        static let farToken = Flags(rawValue: 2)
        /// The token was too long and not kept: `token.2` and `.3` are its digest.
        static let lostToken = Flags(rawValue: 4)
        /// `id` is a UUID.
        static let uuid = Flags(rawValue: 8)
        /// `id.1` is a message's number.
        static let number = Flags(rawValue: 16)
    }

    /// The maximum bytes of a token that is stored inside.
    static let tokenBytesMax = 32

    var time: Int64 = 0
    var token: (UInt64, UInt64, UInt64, UInt64) = (0, 0, 0, 0)
    var id: (UInt64, UInt64) = (0, 0)
    /// The number of the send in the shard's table; 0 for none.
    var send: UInt32 = 0
    /// The status in ten bits, the route in six.
    private var outcome: UInt16 = 0
    /// The flags in five bits; the upper three belong to the token's length.
    var flags = Flags()
    /// The token's length in three bits, the fault in five.
    private var lengthAndFault: UInt8 = 0

    init() {}

    /// The route's number.
    var route: UInt8 {
        get { UInt8(self.outcome >> 10) }
        set { self.outcome = self.outcome & 0x3ff | UInt16(newValue) << 10 }
    }

    /// The status, 200...599, or 0 when the request was not processed.
    var status: Int {
        get { Int(self.outcome & 0x3ff) }
        set { self.outcome = self.outcome & ~0x3ff | UInt16(newValue) }
    }

    /// True when the request was accepted.
    var isAccepted: Bool { (200..<300).contains(self.status) }

    /// The number of bytes of a token that is stored inside: 0...32.
    var tokenLength: Int {
        get { Int(self.flags.rawValue >> 5) << 3 | Int(self.lengthAndFault & 7) }
        set {
            self.flags = Flags(rawValue: self.flags.rawValue & 0x1f | UInt8(newValue >> 3) << 5)
            self.lengthAndFault = self.lengthAndFault & 0xf8 | UInt8(newValue & 7)
        }
    }

    /// The fault's ``Fault/code``; 0 for none.
    var fault: UInt8 {
        get { self.lengthAndFault >> 3 }
        set { self.lengthAndFault = self.lengthAndFault & 7 | newValue << 3 }
    }
}
