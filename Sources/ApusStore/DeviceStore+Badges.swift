package import ApusCore
internal import ApusMessages
internal import ApusRedis

/// Counts badges up for sends. Badges stand beside the records, not in them: a registration compares whole records, and would have to start
/// again whenever a send came between.
extension DeviceStore {
    /// Names a device of a partition: its place and the generation that was read.
    package struct CountedDevice: Hashable, Sendable {
        /// Its ordinal.
        package var ordinal: UInt32
        /// The generation in its record.
        package var generation: UInt32

        /// Creates a reference to a device.
        package init(ordinal: UInt32, generation: UInt32) {
            self.ordinal = ordinal
            self.generation = generation
        }
    }

    /// Counts a send for devices of one partition: once per device and send, even if it is repeated after a crash, as long as not more than
    /// `StoreLimits.badgeSendsMax` other sends were counted for the device in between.
    ///
    /// - Parameters:
    ///   - devices: at most `StoreLimits.badgesPerCallMax`; fastest when those of a slab follow each other.
    ///   - send: a digest of the send's id.
    ///   - increment: the number that the send adds.
    ///   - isRepeated: true when these devices were counted for this send before.
    /// - Returns: the badge of each device, at most `Limits.badgeMax`; nil for a device that is gone.
    package func countBadges(
        _ route: Route,
        _ partition: Int,
        _ devices: [CountedDevice],
        send: UInt64,
        increment: UInt32,
        isRepeated: Bool = false,
    ) async throws(StoreError) -> [UInt32?] {
        precondition(devices.count <= StoreLimits.badgesPerCallMax)
        guard !devices.isEmpty else { return [] }
        let call = CountBadgesCall(
            keys: [self.keys.meta(route.app, Realm(route), partition)],
            send: Array(bigEndian(send).prefix(StoreLimits.badgeSendBytes)),
            increment: Int(increment),
            isRepeated: isRepeated,
            devices: devices.flatMap { bigEndian($0.ordinal) + bigEndian($0.generation) },
        )
        let reply = try await self.calls.call(call, partition)
        guard let counts = reply.bytes, counts.count == devices.count * 4 else {
            throw StoreCalls.unexpected(CountBadgesCall.function)
        }
        return stride(from: 0, to: counts.count, by: 4).map { start in
            let count = counts[start..<start + 4].reduce(0) { $0 << 8 | UInt32($1) }
            return count <= Limits.badgeMax ? count : nil
        }
    }

    /// Returns the badge of a device.
    package func badge(of device: StoredDevice) async throws(StoreError) -> UInt32 {
        let (slab, field) = Int(device.reference.ordinal).quotientAndRemainder(dividingBy: StoreLimits.slabOrdinals)
        let partition = Int(device.reference.partition)
        let key = self.keys.badges(device.app, device.realm, partition, slab)
        let entry = try await self.calls.send(RedisCommand("HGET", .text(key), .integer(field)), partition).bytes
        return entry.flatMap { StoredBadge($0)?.count } ?? 0
    }

    /// Sets the badge of a device: the app was opened, and reports what it shows.
    ///
    /// - Parameters:
    ///   - count: at most `Limits.badgeMax`.
    ///   - asOf: the time that the command is of; nil for the present. A device that was registered or changed later keeps its badge, and so
    ///     does one whose badge a command of that time or a later one has set: the same command again takes back no send that was counted
    ///     since. The time of a badge keeps out badges alone.
    package func setBadge(
        _ app: AppID,
        _ device: DeviceID,
        to count: UInt32,
        asOf: UnixMilliseconds? = nil,
    ) async throws(StoreError) -> ChangeResult {
        guard count <= Limits.badgeMax else {
            throw StoreError(.invalidRegistration, "a badge is at most \(Limits.badgeMax)")
        }
        let home = self.home(app, device)
        for _ in 0..<StoreLimits.attemptsMax {
            guard let current = try await self.read(home) else { return .missing }
            // Before that the device may have been another user's.
            if let asOf, asOf < current.changedAt { return .ignored(current) }
            let call = SetBadgeCall(
                keys: [self.keys.meta(app, current.realm, home.owner.partition)],
                ordinal: current.reference.ordinal,
                generation: current.reference.generation,
                count: count,
                asOf: asOf?.value ?? 0,
            )
            switch try await self.calls.call(call, home.owner.partition).integer {
            case 1: return .changed(current)
            case 2: return .ignored(current)
            default: continue
            }
        }
        throw Self.contended
    }
}

/// The value in Redis of a badge that was counted or set: the count, the time of the command that set it, and digests of the sends counted.
struct StoredBadge {
    /// The bytes of the count and the time.
    private static let headByteCount = 10

    let count: UInt32

    /// Reads the bytes; nil when they are not of that form.
    init?(_ bytes: [UInt8]) {
        let (rest, width) = (bytes.count - Self.headByteCount, StoreLimits.badgeSendBytes)
        guard rest >= 0, rest % width == 0, rest <= width * StoreLimits.badgeSendsMax else { return nil }
        self.count = bytes.prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
    }
}
