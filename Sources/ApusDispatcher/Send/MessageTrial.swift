/// Limits to how many recipients a message goes before the provider has accepted it for one of them, so that a message that the provider
/// rejects for every recipient reaches few. A pure state machine of one send on one route and event loop, for providers that name the
/// fields that they reject.
struct MessageTrial: Sendable {
    /// The maximum number of requests in flight before the message is accepted: as many as prove that it is wrong for every recipient.
    static let inFlightMax = RejectionTracker.rejectionsMin

    /// The knowledge about the message.
    private enum State: Sendable {
        /// It was neither accepted nor rejected for every recipient. Can become any other.
        case open
        /// It is rejected for every recipient as far as this event loop knows; the ledger decides. Can become any other.
        case rejected
        /// The ledger has ended the send on the route. Final.
        case refused
        /// It was accepted for a recipient, here or elsewhere. Final.
        case accepted
    }

    private let variants: Int
    private var state = State.open
    private var tracker: RejectionTracker
    private var rejections = 0
    private(set) var inFlight = 0

    init(variants: Int) {
        self.variants = variants
        self.tracker = RejectionTracker(variants: variants)
    }

    /// The number of recipients that may be sent to now.
    var room: Int {
        switch self.state {
        case .accepted: return .max
        case .rejected, .refused: return 0
        case .open:
            // Variants that were not tried leave it uncertain, however often the others were rejected.
            let isUncertain = self.rejections >= Self.inFlightMax
            return max(0, Self.inFlightMax - self.inFlight - (isUncertain ? 0 : self.rejections))
        }
    }

    /// Counts recipients that were sent to.
    mutating func sent(_ count: Int) { self.inFlight += count }

    /// Counts a recipient that was answered, or lost.
    mutating func answered() {
        precondition(self.inFlight > 0, "an answer of a message that is not on the wire")
        self.inFlight -= 1
    }

    /// Records that the message was accepted for a recipient.
    mutating func recordAccepted() { if self.state != .refused { self.state = .accepted } }

    /// Records that a variant was rejected because of a field; an empty field is ignored.
    ///
    /// - Returns: true when the message is thereby rejected for every recipient.
    mutating func record(_ field: String, variant: Int) -> Bool {
        guard !field.isEmpty, self.state == .open else { return false }
        self.tracker.record(field, variant: variant)
        self.rejections += 1
        guard self.tracker.takeNews()?.isByAll == true else { return false }
        self.state = .rejected
        return true
    }

    /// Records that the ledger has ended the send on the route because of the message.
    mutating func recordRefused() { self.state = .refused }

    /// Starts again, because the ledger was not asked.
    mutating func reset() {
        guard self.state == .rejected else { return }
        (self.state, self.rejections, self.tracker) = (.open, 0, RejectionTracker(variants: self.variants))
    }
}

/// The runs of one send on one route and event loop that share a message's trial.
final class SharedTrial {
    /// Names a trial on its event loop.
    struct Key: Hashable {
        /// The digest of the send's app and id.
        let send: UInt64
        let route: UInt32
    }

    let key: Key
    var trial: MessageTrial
    /// The number of runs.
    var runs = 0
    private var parked: [ActiveRun] = []

    init(_ key: Key, variants: Int) {
        self.key = key
        self.trial = MessageTrial(variants: variants)
    }

    /// Lets a run wait until there is room.
    func park(_ active: ActiveRun) {
        guard !self.parked.contains(where: { $0 === active }) else { return }
        self.parked.append(active)
    }

    /// Takes the runs that wait, if there is room.
    func takeParked() -> [ActiveRun] {
        guard !self.parked.isEmpty, self.trial.room > 0 else { return [] }
        defer { self.parked = [] }
        return self.parked
    }

    func remove(_ active: ActiveRun) { self.parked.removeAll { $0 === active } }
}
