internal import ApusCore
internal import ApusMessages
internal import ApusProviders

/// The recipients of one run, laid out for sending: rows beside each other, tokens in one buffer.
///
/// A row's index is the recipient's bit in the journal. Built once per unit; nothing in it is made per notification afterwards.
struct RecipientTable: Sendable {
    /// One recipient.
    struct Row: Sendable {
        /// Where its token begins in `tokens`, and how long it is; 0: it is not to be sent to, or is an audience that a
        /// provider holds.
        var tokenOffset: UInt32 = 0
        var tokenLength: UInt16 = 0
        /// Which rendered variant it gets.
        var variant: UInt16 = 0
        /// Its place in the store; for an address, `ordinal` is the index into the command and `partition` is `addressPartition`.
        var partition: UInt32
        var ordinal: UInt32
        var generation: UInt32 = 0
        /// What is known without sending; `open`: send.
        var verdict: Outcome = .open
        var verdictReason: Reason = .none
        /// Whether its token is an installation id.
        var isInstallation = false
        /// Whether the store knows already that its token is taken in another environment than its device's.
        var isEnvironmentKnown = false
    }

    /// The partition of rows that stand for addresses of the command.
    static let addressPartition = UInt32.max

    var rows: [Row] = []
    /// What each row's badge has come to; empty when the message does not count.
    private var badges: [UInt32] = []
    /// The ids of devices by row, as far as they are wanted.
    private var devices: [String] = []
    /// As they go onto the wire: raw bytes or text, as the provider's templates take them.
    var tokens: [UInt8] = []

    /// Adds a recipient to send to.
    mutating func append(_ row: Row, token: some Collection<UInt8>) {
        var row = row
        row.tokenOffset = UInt32(self.tokens.count)
        row.tokenLength = UInt16(token.count)
        self.tokens.append(contentsOf: token)
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

    /// What the row's badge has come to; 0 when the message does not count.
    func badge(_ index: Int) -> UInt32 { self.badges.isEmpty ? 0 : self.badges[index] }

    /// Notes what badges have come to; where there is none the device is gone, and is not to be sent to.
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

    /// Notes the id of the device that a row stands for, which may be one to come.
    mutating func setDevice(_ device: String, of index: Int) {
        if self.devices.count <= index {
            self.devices += Array(repeating: "", count: index + 1 - self.devices.count)
        }
        self.devices[index] = device
    }

    /// The id of the device that the row stands for; empty: it is an address, or nobody wants to know.
    func device(_ index: Int) -> String { index < self.devices.count ? self.devices[index] : "" }

    /// Who the row stands for.
    func place(_ index: Int) -> RecipientPlace {
        let row = self.rows[index]
        guard row.partition != Self.addressPartition else { return .address(row.ordinal) }
        return .device(DeviceReference(partition: row.partition, ordinal: row.ordinal, generation: row.generation))
    }

    /// Whether its rows stand for devices of the store, which may have changed since they were read.
    var isOfDevices: Bool { self.rows.first.map { $0.partition != Self.addressPartition } ?? false }

    /// Takes over what another table of the same recipient says; its badge stays.
    mutating func replace(_ index: Int, with other: Int, of table: RecipientTable) {
        var row = table.rows[other]
        precondition(row.ordinal == self.rows[index].ordinal && row.partition == self.rows[index].partition)
        let token = table.token(other)
        if !token.elementsEqual(self.token(index)) {
            row.tokenOffset = UInt32(self.tokens.count)
            self.tokens.append(contentsOf: token)
        } else {
            row.tokenOffset = self.rows[index].tokenOffset
        }
        row.generation = self.rows[index].generation
        self.rows[index] = row
    }

    /// The token as sent.
    func token(_ index: Int) -> ArraySlice<UInt8> {
        let row = self.rows[index]
        return self.tokens[Int(row.tokenOffset)..<Int(row.tokenOffset) + Int(row.tokenLength)]
    }

    /// The recipients of a later unit: those rows again.
    func recipients(_ indices: [Int]) -> WorkUnit.Recipients {
        guard let first = indices.first, self.rows[first].partition != Self.addressPartition else {
            return .addresses(indices.map { self.rows[$0].ordinal })
        }
        return .references(self.references(indices))
    }

    /// The devices that those rows stand for.
    func references(_ indices: [Int]) -> [DeviceReference] {
        indices.map { index in
            let row = self.rows[index]
            return DeviceReference(partition: row.partition, ordinal: row.ordinal, generation: row.generation)
        }
    }
}

extension DeliveryID {
    /// The id of a send to a row.
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
