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
        package init(keepMilliseconds: Int64, devicesMax: Int = StoreLimits.historiesDefault) {
            precondition(keepMilliseconds > 0 && devicesMax > 0)
            self.keepMilliseconds = keepMilliseconds
            self.devicesMax = devicesMax
        }
    }

    /// An event on its way into the history of a device.
    package struct HistoryEntry: Sendable {
        /// The event.
        package var event: HistoryEvent
        /// The device's id.
        package var device: String
        /// The app, and the realm that the device is in.
        package var route: Route
        /// The place where the device must still be: who was removed or registered anew since the event is told nothing of it.
        package var reference: DeviceReference

        /// An event of a device as the store has it.
        package init(_ event: HistoryEvent, of device: StoredDevice) {
            self.event = event
            self.device = device.id
            self.route = device.realm.route(of: device.app)
            self.reference = device.reference
        }

        /// An event of a device that a send reached.
        package init(_ event: HistoryEvent, of device: DeviceID, at reference: DeviceReference, on route: Route) {
            self.event = event
            self.device = device.text
            self.route = route
            self.reference = reference
        }
    }

    /// The event that the removal of a device adds to its history.
    package struct RemovalEvent: Hashable, Sendable {
        /// The event.
        package var event: HistoryEvent
        /// The rules for the history.
        package var rules: HistoryRules

        /// Creates an event of a removal.
        package init(_ event: HistoryEvent, _ rules: HistoryRules) {
            self.event = event
            self.rules = rules
        }
    }

    /// Returns the partition that has the history of an event's device.
    package func partition(of entry: HistoryEntry) -> Int {
        self.calls.placed(entry.route.app, entry.device).partition
    }

    /// Appends events to the histories of their devices, in their order; one call for each partition. The same events again change nothing.
    package func note(_ entries: [HistoryEntry], _ rules: HistoryRules) async throws(StoreError) {
        var open: [HistoryPlace: AddHistoryCall] = [:]
        var calls: [(partition: Int, call: AddHistoryCall)] = []
        for entry in entries {
            let placed = self.calls.placed(entry.route.app, entry.device)
            let owner = DeviceOwner(partition: placed.partition, digest: placed.digest)
            guard owner.partition == Int(entry.reference.partition) else { continue }
            let place = HistoryPlace(app: entry.route.app, partition: owner.partition)
            let meta = self.keys.meta(place.app, Realm(entry.route), place.partition)
            let empty = {
                AddHistoryCall(
                    keys: [self.keys.meta(place.app, place.partition)],
                    keepMilliseconds: rules.keepMilliseconds,
                    historiesMax: self.keys.share(of: rules.devicesMax),
                )
            }
            // In its place: a call that is taken out is copied with every event.
            open[place, default: empty()].add(entry, owner, meta: meta)
            if open[place]?.events.count == StoreLimits.historyEventsPerCallMax,
                let full = open.removeValue(forKey: place)
            {
                calls.append((place.partition, full))
            }
        }
        // Those of one device stay in their order: full calls first, one after the other.
        for (partition, call) in calls { _ = try await self.calls.call(call, partition) }
        _ = try await forEachConcurrently(Array(open)) { place, call in
            _ = try await self.calls.call(call, place.partition)
        }
    }

    private struct HistoryPlace: Hashable, Sendable {
        var app: AppID
        var partition: Int
    }

    /// Returns the events of a device, the oldest first; empty when none is known.
    package func history(_ app: AppID, _ device: DeviceID) async throws(StoreError) -> [HistoryEvent] {
        let owner = self.home(app, device).owner
        let key = self.keys.history(app, owner.partition, digest: owner.digest)
        let reply = try await self.calls.send(RedisCommand("LRANGE", .text(key), "0", "-1"), owner.partition)
        return reply.children.compactMap { $0.bytes.flatMap { HistoryEvent($0) } }
    }

    /// Returns the event that a write of a record adds to the device's history; nil for none.
    func event(of record: DeviceRecord, over current: StoredDevice?, _ stamp: StoreCalls.Stamp) -> HistoryEvent? {
        let isUnchanged = current?.record.hasSameContent(as: record) ?? false
        guard !isUnchanged || current?.realm.environment != record.environment else { return nil }
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

extension AddHistoryCall {
    /// Adds an event.
    ///
    /// - Parameter meta: the key of the device's place.
    fileprivate mutating func add(_ entry: DeviceStore.HistoryEntry, _ owner: DeviceOwner, meta: String) {
        if !self.keys.dropFirst().contains(meta) { self.keys.append(meta) }
        self.places.append(self.keys.dropFirst().firstIndex(of: meta) ?? 1)
        self.events.append(entry.event.bytes)
        self.digests.append(bigEndian(owner.digest))
        self.ordinals.append(entry.reference.ordinal)
        self.generations.append(entry.reference.generation)
        self.troubles.append(entry.event.kind.isTrouble ? 1 : 0)
    }
}
