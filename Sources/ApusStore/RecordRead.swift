internal import ApusCore
package import ApusRedis

/// Reads records that lie in one slab with a plain command, so that a whole unit of work is one pipelined write.
///
/// Few records are listed (`HMGET`); for many the whole slab is read (`HGETALL`), which is cheaper then.
package struct RecordRead: Sendable {
    /// The hash tag of the key.
    package let tag: HashTag
    /// The command.
    package let command: RedisCommand
    /// The slab's first ordinal.
    package let base: UInt32
    /// The wanted ordinals of the slab: bit i for base + i.
    package let wanted: UInt64

    private let isWhole: Bool
    private let app: AppID
    private let cipher: RecordCipher

    /// Returns the reads for ordinals of one partition.
    ///
    /// - Parameter ordinals: the ordinals, ascending.
    static func reads(
        _ route: Route,
        _ partition: Int,
        ordinals: [UInt32],
        _ calls: StoreCalls,
    ) -> [RecordRead] {
        let (keys, cipher) = (calls.keys, calls.encryption.cipher)
        let size = UInt32(StoreLimits.slabOrdinals)
        var reads: [RecordRead] = []
        var index = 0
        while index < ordinals.count {
            let slab = ordinals[index] / size
            var wanted: UInt64 = 0
            while index < ordinals.count, ordinals[index] / size == slab {
                precondition(index == 0 || ordinals[index - 1] < ordinals[index], "ordinals must ascend")
                wanted |= 1 << UInt64(ordinals[index] % size)
                index += 1
            }
            let key = keys.slab(route.app, Realm(route), partition, Int(slab))
            reads.append(
                RecordRead(
                    key: key,
                    tag: keys.tag(partition),
                    base: slab * size,
                    wanted: wanted,
                    app: route.app,
                    cipher: cipher,
                )
            )
        }
        return reads
    }

    private init(key: String, tag: HashTag, base: UInt32, wanted: UInt64, app: AppID, cipher: RecordCipher) {
        self.app = app
        self.cipher = cipher
        self.tag = tag
        self.base = base
        self.wanted = wanted
        self.isWhole = wanted.nonzeroBitCount >= StoreLimits.wholeSlabFrom
        if self.isWhole {
            self.command = RedisCommand("HGETALL", .text(key))
        } else {
            var fields: [RedisArgument] = [.text(key)]
            var rest = wanted
            while rest != 0 {
                fields.append(.integer(rest.trailingZeroBitCount))
                rest &= rest - 1
            }
            self.command = RedisCommand("HMGET", fields)
        }
    }

    /// Checks that ``forEachRecord(in:_:)`` can read a reply.
    ///
    /// - Throws: `unexpectedReply` for anything but a flat array with a value for each field.
    func check(_ reply: RESPReply) throws(RedisError) {
        let count = reply.nodeCount - 1
        let isComplete = self.isWhole ? count.isMultiple(of: 2) : count == self.wanted.nonzeroBitCount
        guard reply.root.kind == .array, isComplete else { throw reply.unexpected("an array of records") }
        for row in 0..<count {
            let kind = reply.kind(at: row + 1)
            guard kind == .bulk || kind == .null else { throw reply.unexpected("an array of records") }
        }
    }

    /// Checks that the keys of all encrypted records in a reply are known.
    ///
    /// - Throws: `sealed` when one is not.
    func checkKeys(_ reply: RESPReply) throws(StoreError) {
        for row in 1..<max(1, reply.nodeCount) {
            try reply.withBytes(at: row) { value throws(StoreError) in
                try self.cipher.check(value)
            }
        }
    }

    /// Calls `body` with each wanted ordinal and its record (header and packed message, decrypted), or an empty span where there is none.
    /// Each ordinal comes once, in no particular order. Allocates nothing for records that are not encrypted.
    package func forEachRecord<Failure: Error>(
        in reply: RESPReply,
        _ body: (_ ordinal: UInt32, _ value: Span<UInt8>) throws(Failure) -> Void,
    ) throws(Failure) {
        var missing = self.wanted
        var row = 1
        var opener = RecordCipher.Opener(self.cipher, of: self.app)
        if self.isWhole {
            while row + 1 < reply.nodeCount {
                let position = reply.withBytes(at: row) { Self.position($0) }
                if position < 64, missing & (1 << UInt64(position)) != 0 {
                    missing &= ~(1 << UInt64(position))
                    try reply.withBytes(at: row + 1) { value throws(Failure) in
                        try opener.open(value) { value throws(Failure) in
                            try body(self.base + UInt32(position), value)
                        }
                    }
                }
                row += 2
            }
        } else {
            var rest = self.wanted
            while rest != 0, row < reply.nodeCount {
                let position = rest.trailingZeroBitCount
                rest &= rest - 1
                missing &= ~(1 << UInt64(position))
                try reply.withBytes(at: row) { value throws(Failure) in
                    try opener.open(value) { value throws(Failure) in
                        try body(self.base + UInt32(position), value)
                    }
                }
                row += 1
            }
        }
        while missing != 0 {
            try body(self.base + UInt32(missing.trailingZeroBitCount), [UInt8]().span)
            missing &= missing - 1
        }
    }

    /// Returns the number of a field with one or two digits; 64 for anything else.
    private static func position(_ field: Span<UInt8>) -> Int {
        var position = 0
        guard field.count == 1 || field.count == 2 else { return 64 }
        for index in 0..<field.count {
            let digit = Int(field[index]) - 0x30
            guard (0...9).contains(digit) else { return 64 }
            position = position * 10 + digit
        }
        return min(position, 64)
    }
}
