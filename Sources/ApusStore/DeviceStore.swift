package import ApusCore
internal import ApusMessages
package import ApusRedis

/// Stores the devices of all apps in Redis.
///
/// The record is the only truth about a device; a change is decided here and written by one function that compares, so two writers never
/// mix. Hints lie in other slots: the holder of a token, the devices of a user. They are written before the record that makes them true and
/// removed after the one that makes them false. After a removal the record is read once more, after an addition the hint is added once
/// more, so no interleaving loses one. Every user of a hint compares it with the record.
package struct DeviceStore: Sendable {
    private(set) var calls: StoreCalls
    let clock: any WallClock
    /// The limits of topics.
    package var topicLimits = TopicLimits.default
    /// The devices that an app may have, roughly; nil for no limit. Each partition has its share and some more, since ids do not spread evenly.
    package var devicesPerApp: Int?
    /// The waits for replicas between the removal of a token's former holders and its confirmation; nil: nobody waits.
    package var replicaWaits: ReplicaWaits?

    /// Creates a store over that client.
    package init(client: RedisClient, keyspace: Keyspace, clock: any WallClock) {
        self.calls = StoreCalls(client: client, keys: StoreKeys(keyspace))
        self.clock = clock
    }

    /// Returns the time by the store's clock.
    package var now: UnixMilliseconds { self.clock.now() }

    /// The encryption of its records, which copies of the store share.
    package var encryption: RecordEncryption {
        get { self.calls.encryption }
        set { self.calls.encryption = newValue }
    }

    /// The names of its keys.
    package var keys: StoreKeys { self.calls.keys }

    /// Returns a device; nil when there is none of that id.
    package func get(_ app: AppID, _ device: DeviceID) async throws(StoreError) -> StoredDevice? {
        try await self.read(self.home(app, device))
    }

    /// The result of a change.
    package enum ChangeResult: Hashable, Sendable {
        /// The change is stored.
        case changed(StoredDevice)
        /// The device was in that state already, but perhaps for the time of its last change.
        case unchanged(StoredDevice)
        /// The device was registered or changed after the time for which the change was meant, or the user who was to get it was forgotten.
        case ignored(StoredDevice)
        /// There is no such device.
        case missing
    }

    /// The result of a removal.
    package enum DeleteResult: Hashable, Sendable {
        /// The device was removed; this was its last state.
        case deleted(StoredDevice)
        /// The device was registered or changed after the time for which the removal was meant.
        case ignored(StoredDevice)
        /// There was no such device.
        case missing
    }

    /// Forgets a device, and its history.
    ///
    /// - Parameters:
    ///   - asOf: the time that the command is of; nil for the present. A device registered or changed later stays.
    ///   - keepsUser: true to leave what leads from its user to it, who is forgotten.
    package func delete(
        _ app: AppID,
        _ device: DeviceID,
        asOf: UnixMilliseconds? = nil,
        condition: DeviceCondition = .none,
        keepsUser: Bool = false,
    ) async throws(StoreError) -> DeleteResult {
        let home = self.home(app, device)
        var attempted: StoredDevice?
        for _ in 0..<StoreLimits.attemptsMax {
            guard let current = try await self.read(home) else {
                // Our removal may have been executed although its answer was lost; then the hints are still there.
                guard let attempted else {
                    try condition.check(nil)
                    let pruned = try await self.prunedDevices(app, home.owner)
                    guard pruned.allSatisfy({ condition.isForOwner(of: $0) }) else { return .missing }
                    if let asOf, let newer = pruned.first(where: { asOf < $0.changedAt }) { return .ignored(newer) }
                    // An older registration may still come.
                    if let asOf, !keepsUser, try await !self.calls.noteRemoval(app, home.owner, asOf: asOf) { continue }
                    try await self.forgetPruned(home, asOf: asOf, forgetsHistory: true)
                    return .missing
                }
                try await self.forget(attempted, home, keepsUser: keepsUser)
                try await self.forgetPruned(home, asOf: asOf, forgetsHistory: true)
                return .deleted(attempted)
            }
            try condition.check(current)
            if let asOf, asOf < current.changedAt { return .ignored(current) }
            attempted = current
            // Of a user who is forgotten the user's own removal keeps out what is older; the device may have become another's before that time, by a
            // command that comes late.
            let removedAt = keepsUser ? asOf.map { min($0, current.changedAt.advanced(byMilliseconds: 1)) } : asOf
            if try await self.calls.remove(
                current,
                home.owner,
                forgetsHistory: true,
                isRemembered: true,
                asOf: removedAt
            ) {
                try await self.forget(current, home, keepsUser: keepsUser)
                return .deleted(current)
            }
        }
        throw Self.contended
    }

    // MARK: Shared by the parts

    /// Names the place that a device id leads to.
    struct Home: Hashable, Sendable {
        let app: AppID
        /// The device id; nil when only the digest is known, and any device there is meant.
        let id: String?
        let owner: DeviceOwner
    }

    func home(_ app: AppID, _ device: DeviceID) -> Home {
        let placed = self.calls.placed(app, device.text)
        return Home(
            app: app,
            id: device.text,
            owner: DeviceOwner(partition: placed.partition, digest: placed.digest),
        )
    }

    func home(of device: StoredDevice) -> Home {
        let placed = self.calls.placed(device.app, device.id)
        return Home(
            app: device.app,
            id: device.id,
            owner: DeviceOwner(partition: placed.partition, digest: placed.digest),
        )
    }

    /// Returns the device at a home, in whatever realm.
    ///
    /// - Throws: `collision` when it has another id.
    func read(_ home: Home) async throws(StoreError) -> StoredDevice? { try await self.readTimed(home).device }

    /// Returns the device at a home, and the time of the read by Redis' clock, which stamps registrations.
    func readTimed(_ home: Home) async throws(StoreError) -> (device: StoredDevice?, at: UnixMilliseconds) {
        let (device, at) = try await self.readTimed([home])[0]
        return (try device.get(), at)
    }

    /// Reads homes of one app and partition likewise, at most `StoreLimits.registrationsPerCallMax`.
    func readTimed(
        _ homes: [Home]
    ) async throws(StoreError) -> [(device: Result<StoredDevice?, StoreError>, at: UnixMilliseconds)] {
        try await self.calls.answer(to: self.reading(homes)).map { ($0.device, $0.at) }
    }

    /// A home as it was read for a registration.
    struct HomeReading: Sendable {
        let device: Result<StoredDevice?, StoreError>
        /// The time of the read by Redis' clock.
        let at: UnixMilliseconds
        /// False when the app has as many devices in the partition as it may have.
        let hasRoom: Bool
        /// The device's badge; nil when it is not there, or nobody asked for it.
        let badge: UInt32?
    }

    /// Returns the call that reads homes of one app and partition likewise.
    ///
    /// - Parameters:
    ///   - devicesPerApp: the devices that the app may have, roughly; nil for no limit.
    ///   - withBadges: true to read the devices' badges, too.
    func reading(
        _ homes: [Home],
        devicesPerApp: Int? = nil,
        withBadges: Bool = false,
    ) -> StoreCalls.UnsentCall<[HomeReading]> {
        let (app, partition) = (homes[0].app, homes[0].owner.partition)
        let most = devicesPerApp.map { self.keys.generousShare(of: $0) }
        let request = self.calls.findDevices(
            app,
            partition,
            homes.map(\.owner.digest),
            countsDevices: most != nil,
            withBadges: withBadges,
        )
        return request.map { found in
            var devices = [(Result<StoredDevice?, StoreError>, UInt32?)](
                repeating: (.success(nil), nil),
                count: homes.count
            )
            for entry in found.devices { devices[entry.index] = (self.device(homes[entry.index], entry), entry.badge) }
            let hasRoom = most.map { found.deviceCount < $0 } ?? true
            return devices.map { HomeReading(device: $0, at: found.at, hasRoom: hasRoom, badge: $1) }
        }
    }

    private func device(_ home: Home, _ found: StoreCalls.Found) -> Result<StoredDevice?, StoreError> {
        do throws(StoreError) {
            let device = try StoredDevice(
                app: home.app,
                realm: found.realm,
                partition: home.owner.partition,
                ordinal: found.ordinal,
                value: found.value,
                cipher: self.encryption.cipher,
            )
            if let id = home.id, id != device.id {
                throw StoreError(.collision, "another device's id has the same digest")
            }
            return .success(device)
        } catch {
            return .failure(error)
        }
    }

    /// Removes the hints of a device whose record is gone.
    func forget(_ device: StoredDevice, _ home: Home, keepsUser: Bool = false) async throws(StoreError) {
        try await self.withdraw(token: device.record.token, user: keepsUser ? nil : device.record.user, of: home)
    }

    /// Removes hints that a device's record does not bear out any more, and restores them when it does again.
    func withdraw(token: [UInt8]?, user: String?, of home: Home) async throws(StoreError) {
        let user = user.flatMap { $0.isEmpty ? nil : $0 }
        guard token != nil || user != nil else { return }
        let (calls, app, owner) = (self.calls, home.app, home.owner)
        _ = try await together {
            if let token { try await calls.release(app, calls.placed(app, token), from: owner) }
        } and: {
            if let user { try await calls.removeUser(app, calls.placed(app, user), of: owner) }
        }
        guard let device = try await self.read(home) else { return }
        let record = device.record
        if let token, calls.sharesEntry(app, record.token, token) { try await self.settle(record.token, home) }
        if let user, calls.sharesEntry(app, user: record.user, user) { try await self.addUser(record.user, home) }
    }

    static let contended = StoreError(.contended, "others changed the device all the time")
}

/// Runs both operations at once.
func together<One: Sendable, Other: Sendable>(
    _ one: @escaping @Sendable () async throws -> One,
    and other: @escaping @Sendable () async throws -> Other,
) async throws(StoreError) -> (One, Other) {
    do {
        async let first = one()
        async let second = other()
        return try await (first, second)
    } catch let error as StoreError {
        throw error
    } catch {
        throw StoreError(.redis, "\(error)")
    }
}

/// Runs the operation for each element, a bounded number at a time, and returns the results in the order of the elements.
package func forEachConcurrently<Element: Sendable, Result: Sendable>(
    _ elements: [Element],
    _ body: @escaping @Sendable (Element) async throws -> Result,
) async throws(StoreError) -> [Result] {
    do {
        // A single element needs no task of its own.
        guard elements.count != 1 else { return [try await body(elements[0])] }
        return try await withThrowingTaskGroup(of: (Int, Result).self) { group in
            var results = [Result?](repeating: nil, count: elements.count)
            var next = 0
            while next < min(64, elements.count) {
                let index = next
                group.addTask { (index, try await body(elements[index])) }
                next += 1
            }
            while let (index, result) = try await group.next() {
                results[index] = result
                guard next < elements.count else { continue }
                let following = next
                group.addTask { (following, try await body(elements[following])) }
                next += 1
            }
            return results.compactMap(\.self)
        }
    } catch let error as StoreError {
        throw error
    } catch {
        throw StoreError(.redis, "\(error)")
    }
}
