public import ApusCore

/// Devices of one chunk of one partition of the store.
public struct Segment: Hashable, Sendable {
    /// The partition.
    public var partition: UInt32
    /// 4,096 ordinals each.
    public var chunk: UInt32
    /// Within the chunk, ascending.
    public var ordinals: [UInt16]

    /// A segment.
    public init(partition: UInt32, chunk: UInt32, ordinals: [UInt16]) {
        self.partition = partition
        self.chunk = chunk
        self.ordinals = ordinals
    }
}

/// A device by its place in the store, and which of the place's tenants is meant.
public struct DeviceReference: Hashable, Sendable {
    /// The partition.
    public var partition: UInt32
    /// The place within it.
    public var ordinal: UInt32
    /// Raised whenever the place is given to another device.
    public var generation: UInt32

    /// A reference.
    public init(partition: UInt32, ordinal: UInt32, generation: UInt32) {
        self.partition = partition
        self.ordinal = ordinal
        self.generation = generation
    }
}

/// Some five hundred recipients of one send on one route, in the order of their bits in the journal.
public struct WorkUnit: Hashable, Sendable {
    /// Who they are.
    public enum Recipients: Hashable, Sendable {
        /// Places, read when sending.
        case segments([Segment])
        /// Devices frozen at accept.
        case references([DeviceReference])
        /// Indices into the command's addresses.
        case addresses([UInt32])

        /// How many.
        public var count: Int {
            switch self {
            case .segments(let segments): segments.reduce(0) { $0 + $1.ordinals.count }
            case .references(let references): references.count
            case .addresses(let indices): indices.count
            }
        }

        /// Those whose positions are wanted, in the same order.
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
    /// Where it goes.
    public var route: RouteNumber
    /// Class of traffic.
    public var lane: Lane = .bulk
    /// From 1.
    public var attempt: UInt32 = 1
    /// Nil: never.
    public var expiresAt: UnixMilliseconds?
    /// Nanoseconds since 1970; 0: unknown.
    public var publishedAtNanoseconds: Int64 = 0
    /// Who they are.
    public var recipients: Recipients
    /// When the first attempt began; nil on the first.
    public var firstAttemptAt: UnixMilliseconds?
    /// Of the store of work; raised by an operator after a restore.
    public var epoch: UInt32 = 0
    /// The environment in which the store has these devices, where it is not the route's; nil: it is.
    public var homeEnvironment: ProviderEnvironment?
    /// Whether all of them were refused because a third party behind the provider does not take our credential.
    public var waitsForThirdPartyAuth = false

    /// A unit.
    public init(send: SendKey, route: RouteNumber, recipients: Recipients) {
        self.send = send
        self.route = route
        self.recipients = recipients
    }
}
