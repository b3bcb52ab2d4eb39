internal import ApusCore
internal import ApusMessages
internal import ApusProviders

/// The recipients of one run in a compact layout: rows in one array, tokens in one buffer.
///
/// A row's index is the recipient's bit in the journal. The table is built once per unit, and sending a notification
/// allocates nothing in it.
struct RecipientTable: Sendable {
    /// One recipient.
    struct Row: Sendable {
        /// The token's place in `tokens`. Its length is 0 if the recipient is not to be sent to, or is an audience that
        /// a provider holds.
        var tokenOffset: UInt32 = 0
        var tokenLength: UInt16 = 0
        /// The index of the rendered variant that it gets.
        var variant: UInt16 = 0
        /// The recipient's partition and ordinal in the store. For an address, `partition` is `addressPartition`, and
        /// `ordinal` is the index into the command.
        var partition: UInt32
        var ordinal: UInt32
        var generation: UInt32 = 0
        /// The outcome that is known without sending; `open` if the recipient is to be sent to.
        var verdict: Outcome = .open
        var verdictReason: Reason = .none
        /// True when the token is an installation id.
        var isInstallation = false
        /// True when the store already knows that the token belongs to another environment than the device's.
        var isEnvironmentKnown = false
        /// True when the provider has refused a message for the token, and has accepted none since: see ``OutcomeBatch/refusals``.
        var wasRefused = false
    }

    /// The partition of rows that stand for addresses of the command.
    static let addressPartition = UInt32.max

    var rows: [Row] = []
    /// The badge of each row; empty when the message does not count badges.
    private var badges: [UInt32] = []
    /// The device ids by row, as far as they are needed.
    private var devices: [String] = []
    /// The tokens in the form that requests use: raw bytes or text, depending on the provider. Each is followed by
    /// `keyBytes` bytes of keys.
    var tokens: [UInt8] = []
    /// The number of bytes of keys behind each token: 0 for providers whose devices have none.
    var keyBytes = 0

    /// Adds a recipient to send to.
    ///
    /// - Parameter keys: the keys behind the token: as many bytes as `keyBytes`.
    mutating func append(_ row: Row, token: some Collection<UInt8>, keys: [UInt8] = []) {
        precondition(keys.count == self.keyBytes, "the recipients of a table all have keys, or none")
        var row = row
        row.tokenOffset = UInt32(self.tokens.count)
        row.tokenLength = UInt16(token.count)
        self.tokens.append(contentsOf: token)
        self.tokens.append(contentsOf: keys)
        self.rows.append(row)
    }

    /// Adds a recipient that is not to be sent to.
    mutating func append(_ row: Row, outcome: Outcome, reason: Reason) {
        precondition(outcome != .open)
        var row = row
        row.verdict = outcome
        row.verdictReason = reason
        self.rows.append(row)
    }

    /// Returns the row's badge; 0 when the message does not count badges.
    func badge(_ index: Int) -> UInt32 { self.badges.isEmpty ? 0 : self.badges[index] }

    /// Sets the badges of rows. A row without a count is skipped, because its device is gone.
    mutating func setBadges(_ counts: [UInt32?], of indices: [Int]) {
        precondition(counts.count == indices.count)
        if self.badges.isEmpty { self.badges = Array(repeating: 0, count: self.rows.count) }
        for (index, count) in zip(indices, counts) {
            if let count {
                self.badges[index] = count
            } else {
                self.rows[index].verdict = .skipped
                self.rows[index].verdictReason = .deviceGone
            }
        }
    }

    /// Sets the device id of a row. The row may be added later.
    mutating func setDevice(_ device: String, of index: Int) {
        if self.devices.count <= index {
            self.devices += Array(repeating: "", count: index + 1 - self.devices.count)
        }
        self.devices[index] = device
    }

    /// Returns the id of the row's device; empty for an address, or when ids are not needed.
    func device(_ index: Int) -> String { index < self.devices.count ? self.devices[index] : "" }

    /// Returns the place of the row's recipient: an address or a device.
    func place(_ index: Int) -> RecipientPlace {
        let row = self.rows[index]
        guard row.partition != Self.addressPartition else { return .address(row.ordinal) }
        return .device(DeviceReference(partition: row.partition, ordinal: row.ordinal, generation: row.generation))
    }

    /// True when the rows are devices of the store, which may have changed since they were read.
    var isOfDevices: Bool { self.rows.first.map { $0.partition != Self.addressPartition } ?? false }

    /// Replaces a row with the same recipient's row of another table. Its badge and generation are kept.
    mutating func replace(_ index: Int, with other: Int, of table: RecipientTable) {
        var row = table.rows[other]
        precondition(row.ordinal == self.rows[index].ordinal && row.partition == self.rows[index].partition)
        let recipient = table.recipient(other)
        if !recipient.elementsEqual(self.recipient(index)) {
            row.tokenOffset = UInt32(self.tokens.count)
            self.tokens.append(contentsOf: recipient)
        } else {
            row.tokenOffset = self.rows[index].tokenOffset
        }
        row.generation = self.rows[index].generation
        self.rows[index] = row
    }

    /// Returns the row's token as sent.
    func token(_ index: Int) -> ArraySlice<UInt8> {
        let row = self.rows[index]
        return self.tokens[Int(row.tokenOffset)..<Int(row.tokenOffset) + Int(row.tokenLength)]
    }

    /// Returns the row's token with its keys, which are missing when the row is not to be sent to.
    private func recipient(_ index: Int) -> ArraySlice<UInt8> {
        let row = self.rows[index]
        let keys = row.tokenLength > 0 ? self.keyBytes : 0
        return self.tokens[Int(row.tokenOffset)..<Int(row.tokenOffset) + Int(row.tokenLength) + keys]
    }

    /// Returns the recipients for a later unit that repeats the given rows.
    func recipients(_ indices: [Int]) -> WorkUnit.Recipients {
        guard let first = indices.first, self.rows[first].partition != Self.addressPartition else {
            return .addresses(indices.map { self.rows[$0].ordinal })
        }
        return .references(self.references(indices))
    }

    /// Returns references to the devices of the given rows.
    func references(_ indices: [Int]) -> [DeviceReference] {
        indices.map { index in
            let row = self.rows[index]
            return DeviceReference(partition: row.partition, ordinal: row.ordinal, generation: row.generation)
        }
    }
}

extension DeliveryID {
    /// Creates the id of the delivery of a send to a row.
    init(sendDigest: UInt64, _ row: RecipientTable.Row) {
        if row.partition == RecipientTable.addressPartition {
            self.init(sendDigest: sendDigest, place: .address(row.ordinal))
        } else {
            self.init(
                sendDigest: sendDigest,
                partition: row.partition,
                ordinal: row.ordinal,
                generation: row.generation,
            )
        }
    }
}
