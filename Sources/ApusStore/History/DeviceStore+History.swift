package import ApusCore
internal import ApusMessages
internal import ApusRedis

/// The last events of a device: the answer to "why didn't she get it?".
///
/// A device has a history only once something happened to it that is worth a question: a verdict of its provider, or an outcome
/// that was reported for it by itself (a direct send, or what was not accepted of a larger one, both with receipts per
/// recipient). From then on its registrations are told too, by the function that writes the record. So a fan-out costs no
/// call for each notification, and a device to which nothing happened not a byte; when it was registered stands in its record.
///
/// Bounded by `StoreLimits.historyEventsMax` events of each device, and the time that feedback keeps them after the last. A pruned
/// device's history takes about what its record gave back.
extension DeviceStore {
    /// Appends events to a device's history. Again with the same events changes nothing.
    ///
    /// - Parameters:
    ///   - events: in their order.
    ///   - keepMilliseconds: how long the history is kept after its last event.
    package func note(
        _ events: [HistoryEvent],
        of device: StoredDevice,
        keepMilliseconds: Int64,
    ) async throws(StoreError) {
        guard !events.isEmpty else { return }
        let owner = self.home(of: device).owner
        _ = try await self.calls.call(
            "apus1_history_add",
            owner.partition,
            keys: [self.keys.meta(device.app, owner.partition)],
            [.bytes(bigEndian(owner.digest)), .integer(keepMilliseconds)] + events.map { RedisArgument.bytes($0.bytes) },
        )
    }

    /// What is known of a device, the oldest first; empty: nothing, or no longer.
    package func history(_ app: AppID, _ device: DeviceID) async throws(StoreError) -> [HistoryEvent] {
        let owner = self.home(app, device).owner
        let key = self.keys.history(app, owner.partition, digest: owner.digest)
        let reply = try await self.calls.send(RedisCommand("LRANGE", .text(key), "0", "-1"), owner.partition)
        return reply.children.compactMap { $0.bytes.flatMap { HistoryEvent($0) } }
    }

    /// Forgets what became of a device.
    func forgetHistory(_ home: Home) async throws(StoreError) {
        let key = self.keys.history(home.app, home.owner.partition, digest: home.owner.digest)
        _ = try await self.calls.send(RedisCommand("DEL", .text(key)), home.owner.partition)
    }

    /// What a write of a record tells the device's history; nil: nothing.
    func event(of record: DeviceRecord, over current: StoredDevice?, _ stamp: StoreCalls.Stamp) -> HistoryEvent? {
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
