internal import ApusCore
internal import ApusMessages
internal import ApusStore
internal import Logging

/// Counts the recipients that end without being sent to, and lists those that have a place.
struct ClosedRecipients: Sendable {
    /// The counts, one per provider, outcome and reason.
    private(set) var counts: [OutcomeCount] = []
    /// The outcomes one by one; empty when the send does not list its recipients.
    private(set) var recipients: [RecipientOutcome] = []
    private let isListed: Bool
    private let at: UnixMilliseconds

    /// - Parameters:
    ///   - isListed: true to list outcomes one by one as well.
    ///   - at: the time of the outcomes.
    init(listed isListed: Bool, at: UnixMilliseconds) {
        self.isListed = isListed
        self.at = at
    }

    /// The number of recipients.
    var count: UInt64 { self.counts.reduce(0) { $0 + $1.count } }

    /// Adds a device for whose provider the send has no message.
    mutating func addUnrendered(_ found: FoundDevice, of context: SendContext) {
        let (outcome, reason) = context.ending(unrenderedFor: found.realm.provider)
        self.add(found.realm.provider, outcome, reason)
        guard self.isListed, case .device(let device) = found else { return }
        var ended = RecipientOutcome(place: .device(device.reference), outcome: outcome, reason: reason, at: self.at)
        ended.device = device.id
        (ended.provider, ended.environment) = (device.realm.provider, device.realm.environment)
        self.recipients.append(ended)
    }

    /// Adds an address for whose provider the send has no message.
    mutating func addUnrendered(_ address: Address, at index: Int, of context: SendContext) {
        let (outcome, reason) = context.ending(unrenderedFor: address.provider)
        self.add(address.provider, outcome, reason)
        guard self.isListed else { return }
        var ended = RecipientOutcome(place: .address(UInt32(index)), outcome: outcome, reason: reason, at: self.at)
        (ended.provider, ended.environment) = (address.provider, address.environment)
        self.recipients.append(ended)
    }

    /// Adds a recipient whose record cannot be read, and logs the record's place.
    mutating func addCorrupt(_ record: CorruptRecord, app: String, logger: Logger) {
        self.add(record.realm.provider, .skipped, .malformed)
        logger.error(
            "a device's record cannot be read; it is skipped",
            metadata: ["app": "\(app)", "place": "\(record)"]
        )
    }

    /// Adds recipients without a place.
    mutating func add(_ provider: Provider, _ outcome: Outcome, _ reason: Reason, count: UInt64 = 1) {
        self.counts.add(OutcomeCount(provider: provider, outcome: outcome, reason: reason, count: count))
    }
}

extension OutcomeBatch {
    /// Adds recipients that ended without being sent to.
    mutating func add(_ closed: ClosedRecipients) {
        self.counts += closed.counts
        self.recipients += closed.recipients
    }
}
