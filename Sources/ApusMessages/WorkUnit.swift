public import ApusCore

/// The devices of one chunk of one partition of the store.
public struct Segment: Hashable, Sendable {
    /// The partition.
    public var partition: UInt32
    /// The number of the chunk; each has 4,096 ordinals.
    public var chunk: UInt32
    /// The ordinals within the chunk, ascending.
    public var ordinals: [UInt16]

    /// Creates a segment.
    public init(partition: UInt32, chunk: UInt32, ordinals: [UInt16]) {
        self.partition = partition
        self.chunk = chunk
        self.ordinals = ordinals
    }
}

/// Identifies a device by its place in the store and its generation.
public struct DeviceReference: Hashable, Sendable {
    /// The partition.
    public var partition: UInt32
    /// The ordinal within the partition.
    public var ordinal: UInt32
    /// The generation, by which two holders of one place differ: it is made of the holder's id and of how often places were reused.
    public var generation: UInt32

    /// Creates a reference.
    public init(partition: UInt32, ordinal: UInt32, generation: UInt32) {
        self.partition = partition
        self.ordinal = ordinal
        self.generation = generation
    }
}

/// Up to some five hundred recipients of one send on one route, in the order of their bits in the journal.
public struct WorkUnit: Hashable, Sendable {
    /// The recipients of a unit.
    public enum Recipients: Hashable, Sendable {
        /// Places, read when sending.
        case segments([Segment])
        /// Devices that were fixed at acceptance of the command.
        case references([DeviceReference])
        /// Indices of addresses in the command.
        case addresses([UInt32])

        /// The number of recipients.
        public var count: Int {
            switch self {
            case .segments(let segments): segments.reduce(0) { $0 + $1.ordinals.count }
            case .references(let references): references.count
            case .addresses(let indices): indices.count
            }
        }

        /// Returns the recipients whose positions are wanted, in the same order.
        package func keeping(_ isWanted: (Int) -> Bool) -> Recipients {
            var position = -1
            func isNextWanted() -> Bool {
                position += 1
                return isWanted(position)
            }
            switch self {
            case .segments(var segments):
                for index in segments.indices {
                    segments[index].ordinals = segments[index].ordinals.filter { _ in isNextWanted() }
                }
                return .segments(segments.filter { !$0.ordinals.isEmpty })
            case .references(let references): return .references(references.filter { _ in isNextWanted() })
            case .addresses(let indices): return .addresses(indices.filter { _ in isNextWanted() })
            }
        }
    }

    /// The send, by its app and its id.
    public var send: SendKey
    /// The number of the route.
    public var route: RouteNumber
    /// The class of traffic.
    public var lane: Lane = .bulk
    /// The number of the attempt, from 1.
    public var attempt: UInt32 = 1
    /// The time at which the message expires; nil for never.
    public var expiresAt: UnixMilliseconds?
    /// The time of publication in nanoseconds since 1970; 0 when unknown.
    public var publishedAtNanoseconds: Int64 = 0
    /// The recipients.
    public var recipients: Recipients
    /// The time at which the first attempt began; nil in the first.
    public var firstAttemptAt: UnixMilliseconds?
    /// The epoch of the work streams; an operator raises it after a restore.
    public var epoch: UInt32 = 0
    /// The environment of the devices in the store, where it differs from the route's; otherwise nil.
    public var homeEnvironment: ProviderEnvironment?
    /// True when all recipients were refused because a third party behind the provider does not accept our credential.
    public var waitsForThirdPartyAuth = false
    /// True when the send was counted in the badges of all recipients before.
    public var badgesCounted = false

    /// Creates a unit.
    public init(send: SendKey, route: RouteNumber, recipients: Recipients) {
        self.send = send
        self.route = route
        self.recipients = recipients
    }
}
