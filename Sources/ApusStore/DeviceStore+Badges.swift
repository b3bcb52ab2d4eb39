package import ApusCore
internal import ApusMessages
internal import ApusRedis

/// Badges that sends count up. They stand beside the records, not in them: a registration compares whole records, and would have
/// to start again whenever a send came between.
extension DeviceStore {
    /// A device of a partition: its place and who held it when it was read.
    package struct CountedDevice: Hashable, Sendable {
        /// Its ordinal.
        package var ordinal: UInt32
        /// Of its record.
        package var generation: UInt32

        /// A device.
        package init(ordinal: UInt32, generation: UInt32) {
            self.ordinal = ordinal
            self.generation = generation
        }
    }

    /// Counts a send for devices of one partition: once per device and send, also when it is asked for again after a crash, as long
    /// as not more than `StoreLimits.badgeSendsMax` other sends were counted for the device in between.
    ///
    /// - Parameters:
    ///   - devices: at most `StoreLimits.badgesPerCallMax`; quickest when those of a slab follow each other.
    ///   - send: a digest of the send's id.
    ///   - increment: what the send adds.
    ///   - isRepeated: these devices were counted for this send before.
    /// - Returns: what each badge has come to, at most `Limits.badgeMax`; nil: the device is gone.
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

    /// What a device's badge has come to.
    package func badge(of device: StoredDevice) async throws(StoreError) -> UInt32 {
        let (slab, field) = Int(device.reference.ordinal).quotientAndRemainder(dividingBy: StoreLimits.slabOrdinals)
        let partition = Int(device.reference.partition)
        let key = self.keys.badges(device.app, device.realm, partition, slab)
        let entry = try await self.calls.send(RedisCommand("HGET", .text(key), .integer(field)), partition).bytes
        return entry.flatMap { StoredBadge($0)?.count } ?? 0
    }

    /// Sets what a device's badge has come to: the app was opened, and says what it shows now.
    ///
    /// - Parameter count: at most `Limits.badgeMax`.
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
            if let asOf, asOf < current.registeredAt { return .ignored(current) }
            let call = SetBadgeCall(
                keys: [self.keys.meta(app, current.realm, home.owner.partition)],
                ordinal: current.reference.ordinal,
                generation: current.reference.generation,
                count: count,
            )
            if try await self.calls.call(call, home.owner.partition).integer == 1 { return .changed(current) }
        }
        throw Self.contended
    }
}

/// What Redis holds of a badge that was counted.
struct StoredBadge {
    let count: UInt32

    /// Nil when the bytes are not of that form.
    init?(_ bytes: [UInt8]) {
        let width = StoreLimits.badgeSendBytes
        guard bytes.count >= 4, (bytes.count - 4) % width == 0, bytes.count <= 4 + width * StoreLimits.badgeSendsMax
        else { return nil }
        self.count = bytes.prefix(4).reduce(0) { $0 << 8 | UInt32($1) }
    }
}
