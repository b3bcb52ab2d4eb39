package import ApusCore
package import ApusMessages
internal import ApusRedis

/// Keeps the last events of a device: the answer to "why didn't she get it?".
///
/// A device has a history only once something happened to it that is worth a question: a verdict of its provider, or an outcome that was
/// reported for the device by itself (of a send that named it or its user, or an unaccepted one of a larger send with receipts per
/// recipient). From then on its registrations are recorded too, by the function that writes the record. So a fan-out costs no call for each
/// notification, and a device to which nothing happened not a byte; the time of its registration stands in its record.
///
/// A history is bounded by `StoreLimits.historyEventsMax` events of each device, by the time that feedback keeps them after the last, and
/// by the number of devices of an app that have one; beyond it, histories of devices without trouble are removed first.
extension DeviceStore {
    /// Sets for how long, and of how many devices, histories are kept.
    package struct HistoryRules: Hashable, Sendable {
        /// The time after the last event.
        package var keepMilliseconds: Int64
        /// The approximate number of devices of one app: each partition has its share.
        package var devicesMax: Int

        /// Creates rules.
        package init(keepMilliseconds: Int64, devicesMax: Int = StoreLimits.historiesStandard) {
            precondition(keepMilliseconds > 0 && devicesMax > 0)
            self.keepMilliseconds = keepMilliseconds
            self.devicesMax = devicesMax
        }
    }

    /// Appends events to a device's history. The same events again change nothing.
    ///
    /// - Parameter events: the events in their order.
    package func note(
        _ events: [HistoryEvent],
        of device: StoredDevice,
        _ rules: HistoryRules,
    ) async throws(StoreError) {
        let owner = self.home(of: device).owner
        try await self.note(events, device.app, device.realm, owner, at: nil, rules)
    }

    /// Appends events to the history of a device that a send reached, unless the device is gone: so recording its outcome takes one call,
    /// and a device that was forgotten meanwhile stays forgotten.
    ///
    /// - Parameter device: the id of the device at that place.
    package func note(
        _ events: [HistoryEvent],
        of device: DeviceID,
        at reference: DeviceReference,
        on route: Route,
        _ rules: HistoryRules,
    ) async throws(StoreError) {
        let owner = self.home(route.app, device).owner
        guard owner.partition == Int(reference.partition) else { return }
        try await self.note(events, route.app, Realm(route), owner, at: reference, rules)
    }

    private func note(
        _ events: [HistoryEvent],
        _ app: AppID,
        _ realm: Realm,
        _ owner: DeviceOwner,
        at reference: DeviceReference?,
        _ rules: HistoryRules,
    ) async throws(StoreError) {
        guard !events.isEmpty else { return }
        let partitions = self.keys.keyspace.devicePartitions
        let call = AddHistoryCall(
            keys: [self.keys.meta(app, owner.partition), self.keys.meta(app, realm, owner.partition)],
            digest: bigEndian(owner.digest),
            keepMilliseconds: rules.keepMilliseconds,
            historiesMax: (rules.devicesMax + partitions - 1) / partitions,
            isTrouble: events.contains { $0.kind.isTrouble },
            ordinal: reference?.ordinal,
            generation: reference?.generation,
            events: events.map(\.bytes),
        )
        _ = try await self.calls.call(call, owner.partition)
    }

    /// Returns the events of a device, the oldest first; empty when none is known.
    package func history(_ app: AppID, _ device: DeviceID) async throws(StoreError) -> [HistoryEvent] {
        let owner = self.home(app, device).owner
        let key = self.keys.history(app, owner.partition, digest: owner.digest)
        let reply = try await self.calls.send(RedisCommand("LRANGE", .text(key), "0", "-1"), owner.partition)
        return reply.children.compactMap { $0.bytes.flatMap { HistoryEvent($0) } }
    }

    /// Forgets the history of a device.
    func forgetHistory(_ home: Home) async throws(StoreError) {
        let (partition, digest) = (home.owner.partition, home.owner.digest)
        let key = self.keys.history(home.app, partition, digest: digest)
        _ = try await self.calls.send(RedisCommand("DEL", .text(key)), partition)
        let index = self.keys.histories(home.app, partition)
        _ = try await self.calls.send(RedisCommand("ZREM", .text(index), .bytes(bigEndian(digest))), partition)
    }

    /// Returns the event that a write of a record adds to the device's history; nil for none.
    func event(of record: DeviceRecord, over current: StoredDevice?, _ stamp: StoreCalls.Stamp) -> HistoryEvent? {
        guard current?.record != record || current?.realm.environment != record.environment else { return nil }
        let kind: HistoryEvent.Kind
        switch stamp {
        case .now, .asOf:
            kind = current.map { $0.record.token != record.token } ?? false ? .tokenReplaced : .registered
        case .keep:
            guard let current, current.record.user != record.user else { return nil }
            kind = .userChanged
        }
        return HistoryEvent(kind, at: self.clock.now())
    }
}
