package import ApusCore
internal import ApusMessages
internal import ApusRedis

/// Brings back devices that were removed on a provider's word, in case the word, or what it answered, was wrong.
///
/// The function that removes such a device keeps its record beside its former place. The record is dropped when the device registers again,
/// in whatever environment, when the app deletes it or wants to change it, and when its time is over.
extension DeviceStore {
    /// Sets for how long, and how many devices can be brought back.
    package struct UndoRules: Hashable, Sendable {
        /// The time after the removal.
        package var keepMilliseconds: Int64
        /// The approximate number of devices of one app, provider and environment: each partition has its share.
        package var devicesMax: Int

        /// The default rules.
        package static let `default` = UndoRules(keepMilliseconds: StoreLimits.undoMillisecondsMax)

        /// Creates rules.
        package init(keepMilliseconds: Int64, devicesMax: Int = StoreLimits.undoDevicesMax) {
            precondition(keepMilliseconds > 0 && keepMilliseconds <= StoreLimits.undoMillisecondsMax && devicesMax > 0)
            self.keepMilliseconds = keepMilliseconds
            self.devicesMax = devicesMax
        }
    }

    /// Holds a device that was removed on a provider's word.
    package struct PrunedDevice: Hashable, Sendable {
        /// The time of the removal.
        package let prunedAt: UnixMilliseconds
        /// The device as it was.
        package let device: StoredDevice
    }

    /// The result of bringing back a device.
    package enum RestoreResult: Hashable, Sendable {
        /// The device is stored again as it was.
        case restored(StoredDevice)
        /// The device has registered again meanwhile, and stays as it is.
        case registered
        /// Another device has its token.
        case tokenTaken
        /// The device was forgotten meanwhile, or its time is over.
        case forgotten
    }

    /// Returns the devices of a part of a route that can be brought back, in the order of their removals, and the number of those whose records
    /// cannot be read, or are encrypted with a key that was taken out.
    ///
    /// - Parameter period: the time of the removals.
    /// - Throws: `sealed` when a record is encrypted, and no keys are known.
    package func prunedDevices(
        _ route: Route,
        _ partition: Int,
        in period: Range<UnixMilliseconds>,
    ) async throws(StoreError) -> (devices: [PrunedDevice], unreadable: Int) {
        var (pruned, unreadable): ([PrunedDevice], Int) = ([], 0)
        var cursor = PrunedCursor(from: period.lowerBound)
        while let page = try await self.nextPruned(&cursor, route, partition, before: period.upperBound) {
            pruned += page.devices
            unreadable += page.unreadable
        }
        return (pruned, unreadable)
    }

    /// Reads on from a place, with one call; nil when it is the end.
    ///
    /// - Throws: `sealed` when a record is encrypted, and no keys are known.
    func nextPruned(
        _ cursor: inout PrunedCursor,
        _ route: Route,
        _ partition: Int,
        before end: UnixMilliseconds,
    ) async throws(StoreError) -> (devices: [PrunedDevice], unreadable: Int)? {
        guard !cursor.isAtEnd else { return nil }
        let realm = Realm(route)
        let call = PrunedDevicesCall(
            keys: [self.keys.meta(route.app, realm, partition)],
            from: cursor.from,
            before: end.value,
            first: cursor.first,
            limit: StoreLimits.undoPerCallMax,
        )
        let reply = try await self.calls.call(call, partition)
        let cipher = self.encryption.cipher
        var nodes = reply.children.makeIterator()
        guard let count = nodes.next()?.integer else { throw StoreCalls.unexpected(PrunedDevicesCall.function) }
        var (pruned, unreadable): ([PrunedDevice], Int) = ([], 0)
        var last = cursor.from
        while let at = nodes.next()?.integer, let value = nodes.next()?.bytes {
            last = at
            guard !value.isEmpty, cursor.takeNew(value) else { continue }
            do throws(StoreError) {
                let device = try StoredDevice(
                    app: route.app,
                    realm: realm,
                    partition: partition,
                    ordinal: 0,
                    value: value,
                    cipher: cipher,
                )
                pruned.append(PrunedDevice(prunedAt: UnixMilliseconds(at), device: device))
            } catch {
                // A key that was taken out too early keeps no other device away.
                guard error.code == .corrupt || error.code == .sealed && cipher.hasKeys else { throw error }
                unreadable += 1
            }
        }
        cursor.advance(over: Int(count), to: last)
        return (pruned, unreadable)
    }

    /// Returns the device of that id as it was removed on a provider's word, the latest one if there are several environments; nil when
    /// there is none.
    ///
    /// - Throws: `sealed` when there is none among those whose records can be read, and others of its partition cannot be read.
    package func prunedDevice(_ app: AppID, _ device: DeviceID) async throws(StoreError) -> PrunedDevice? {
        let partition = self.home(app, device).owner.partition
        let always = UnixMilliseconds(0)..<Limits.timeMax
        var (found, unreadable): ([PrunedDevice], Int) = ([], 0)
        for realm in Realm.allCases {
            let pruned = try await self.prunedDevices(realm.route(of: app), partition, in: always)
            found += pruned.devices.filter { $0.device.id == device.text }
            unreadable += pruned.unreadable
        }
        guard !found.isEmpty || unreadable == 0 else {
            let detail =
                "\(unreadable) removed devices of its partition cannot be read with the keys that are known here"
            throw StoreError(.sealed, "\(device.text) was not found, but \(detail)")
        }
        return found.max { $0.prunedAt < $1.prunedAt }
    }

    /// Brings back a device as it was removed on a provider's word, without suspicion. It is safe beside registrations: a device or a token
    /// that is in use again stays where it is.
    package func restore(_ pruned: PrunedDevice) async throws(StoreError) -> RestoreResult {
        let old = pruned.device
        let home = self.home(of: old)
        var record = old.record
        record.suspicion = nil
        let token = self.calls.placed(old.app, record.token)
        for _ in 0..<StoreLimits.attemptsMax {
            var stored = try await self.read(home)
            if let current = stored {
                // A record that equals the desired one comes from an earlier attempt whose answer was lost.
                guard current.record == record, current.registeredAt == old.registeredAt else { return .registered }
            } else if try await !self.isKept(old, home) {
                // An earlier attempt may have claimed the token and noted the user.
                try await self.withdraw(token: record.token, user: record.user, of: home)
                return .forgotten
            } else {
                try await self.keepTopics(record.topics, of: old.app)
            }
            guard try await self.claimFree(record.token, token, home) else { return .tokenTaken }
            if !record.user.isEmpty { try await self.addUser(record.user, home) }
            if stored == nil {
                stored = try await self.write(
                    record,
                    over: nil,
                    realm: old.realm,
                    home: home,
                    stamp: .asOf(old.registeredAt),
                    isVerdict: true,
                    pruned: old.value,
                )
            }
            guard let stored else { continue }
            switch try await self.calls.confirm(old.app, token, by: home.owner, cleared: []) {
            case .settled: break
            case .withdrawn: continue
            case .superseded:
                try await self.yield(record.token, home)
                return .tokenTaken
            }
            if !record.user.isEmpty { try await self.addUser(record.user, home) }
            return .restored(stored)
        }
        throw Self.contended
    }

    /// Records that a device is about to enter topics again, so that one that was found empty rests anew when the device leaves it.
    private func keepTopics(_ numbers: [UInt32], of app: AppID) async throws(StoreError) {
        let (calls, topics) = (self.calls, try await self.topicNames(app, numbers).compactMap(\.self))
        _ = try await forEachConcurrently(topics) { try await calls.keepTopic(app, $0) }
    }

    /// Returns true while a removed device is kept as it was.
    private func isKept(_ device: StoredDevice, _ home: Home) async throws(StoreError) -> Bool {
        let (partition, digest) = (home.owner.partition, home.owner.digest)
        let key = self.keys.pruned(device.app, device.realm, partition, digest: digest)
        return try await self.calls.send(RedisCommand("GET", .text(key)), partition).bytes == device.value
    }

    /// Claims a token that no other device has, or is about to have.
    ///
    /// - Returns: false when another device has it; then nothing has changed.
    private func claimFree(
        _ token: [UInt8],
        _ placed: StoreCalls.Placed,
        _ home: Home,
    ) async throws(StoreError) -> Bool {
        let owners = try await self.calls.owners(home.app, placed).filter { $0.device != home.owner }
        guard try await self.areFree(owners, of: token, home.app) else { return false }
        let answer = try await self.calls.claim(home.app, placed, by: home.owner)
        let known = Set(owners.map(\.device))
        guard case .claimed(let others) = answer, known.isSuperset(of: others) else {
            try await self.calls.release(home.app, placed, from: home.owner)
            return false
        }
        return true
    }

    /// Returns true when none of these has the token, or has claimed it.
    private func areFree(
        _ owners: [StoreCalls.TokenOwner],
        of token: [UInt8],
        _ app: AppID,
    ) async throws(StoreError) -> Bool {
        for owner in owners {
            guard owner.isSettled else { return false }
            if try await self.read(Home(app: app, id: nil, owner: owner.device))?.record.token == token { return false }
        }
        return true
    }

    /// Returns the devices of a user that were removed on a provider's word and can be brought back; without those whose records cannot be read.
    package func prunedDevices(_ app: AppID, ofUser user: UserID) async throws(StoreError) -> [StoredDevice] {
        var pruned: [StoredDevice] = []
        for owner in try await self.formerDevices(app, of: user) {
            pruned += try await self.prunedDevices(app, owner).filter { $0.record.user == user.text }
        }
        return pruned
    }

    /// Returns a device in each environment where it was removed on a provider's word; without those whose records cannot be read.
    func prunedDevices(_ app: AppID, _ owner: DeviceOwner) async throws(StoreError) -> [StoredDevice] {
        let realms = Realm.allCases
        let names = realms.map {
            RedisArgument.text(self.keys.pruned(app, $0, owner.partition, digest: owner.digest))
        }
        let reply = try await self.calls.send(RedisCommand("MGET", names), owner.partition)
        return zip(realms, reply.children).compactMap { realm, node in
            guard let value = node.bytes else { return nil }
            return try? StoredDevice(
                app: app,
                realm: realm,
                partition: owner.partition,
                ordinal: 0,
                value: value,
                cipher: self.encryption.cipher,
            )
        }
    }

    // MARK: Forgetting

    /// Records beside its user that a device is about to be removed without its doing: what is kept of it is forgotten with the user.
    ///
    /// - Parameter event: the event of the removal; nil: it has none, and a history may be there that is kept for as long as any.
    func noteFormerDevice(
        _ device: StoredDevice,
        _ home: Home,
        _ event: RemovalEvent? = nil,
    ) async throws(StoreError) {
        guard !device.record.user.isEmpty else { return }
        let user = self.calls.placed(home.app, device.record.user)
        let keepHistory = event?.rules.keepMilliseconds ?? StoreLimits.historyMillisecondsMax
        let call = NoteFormerDeviceCall(
            keys: [self.keys.formerDevices(home.app, user.partition, ofUser: user.digest)],
            device: home.owner.bytes,
            keepMilliseconds: max(keepHistory, StoreLimits.undoMillisecondsMax),
            devicesMax: StoreLimits.formerDevicesPerUserMax,
        )
        _ = try await self.calls.call(call, user.partition)
    }

    /// Returns the devices of a user that were removed without its doing.
    private func formerDevices(_ app: AppID, of user: UserID) async throws(StoreError) -> [DeviceOwner] {
        let placed = self.calls.placed(app, user.text)
        let key = self.keys.formerDevices(app, placed.partition, ofUser: placed.digest)
        let noted = try await self.calls.send(RedisCommand("SMEMBERS", .text(key)), placed.partition)
        return noted.children.compactMap { $0.bytes.flatMap { DeviceOwner($0) } }
    }

    /// Forgets what is kept of the devices of a user that were removed without its doing. Those that are there again keep their histories,
    /// and those that another user had since keep everything.
    ///
    /// - Parameters:
    ///   - asOf: the time that the command is of; nil for the present.
    ///   - forgetsNotes: true to forget which they were, too; those that are noted meanwhile stay.
    func forgetFormerDevices(
        _ app: AppID,
        of user: UserID,
        asOf: UnixMilliseconds?,
        forgetsNotes: Bool,
    ) async throws(StoreError) {
        let placed = self.calls.placed(app, user.text)
        let key = self.keys.formerDevices(app, placed.partition, ofUser: placed.digest)
        for owner in try await self.formerDevices(app, of: user) {
            let kept = try await self.prunedDevices(app, owner)
            if kept.allSatisfy({ $0.record.user.isEmpty || $0.record.user == user.text }) {
                let home = Home(app: app, id: nil, owner: owner)
                guard try await !self.forgetPruned(home, asOf: asOf, forgetsHistory: true) else { continue }
            }
            guard forgetsNotes else { continue }
            _ = try await self.calls.send(RedisCommand("SREM", .text(key), .bytes(owner.bytes)), placed.partition)
        }
    }

    /// Forgets the record of a removed device. A registration of an earlier time does not bring it back for an hour, if there was a record.
    ///
    /// - Parameters:
    ///   - asOf: the time that the command is of; nil for the present. A record of a later registration stays.
    ///   - forgetsHistory: true to forget its history, too, unless it is there again, or its record stays.
    /// - Returns: true when its record stays.
    @discardableResult
    func forgetPruned(_ home: Home, asOf: UnixMilliseconds?, forgetsHistory: Bool) async throws(StoreError) -> Bool {
        let metas = Realm.allCases.map { self.keys.meta(home.app, $0, home.owner.partition) }
        let call = ForgetPrunedCall(
            keys: metas,
            digest: bigEndian(home.owner.digest),
            forgetsHistory: forgetsHistory,
            asOf: asOf?.value ?? 0,
            rememberMilliseconds: StoreLimits.removalMilliseconds,
        )
        return try await self.calls.call(call, home.owner.partition).integer ?? 0 > 0
    }
}

/// Holds up to where removed devices were read, in the order of their removals.
///
/// Devices that register again leave the list meanwhile, so the next ones are those from the last time on, not those behind a number of
/// others. Only entries of one time that are too many for one call are left out by their number.
struct PrunedCursor {
    /// The time from which on the next call reads.
    private(set) var from: Int64
    /// The number of entries that it leaves out.
    private(set) var first = 0
    /// True when the last call had fewer entries than it may have.
    private(set) var isAtEnd = false
    /// The records that were read.
    private var known: Set<[UInt8]> = []

    /// Creates the place of the first device that was removed at that time or later.
    init(from time: UnixMilliseconds) { self.from = time.value }

    /// Returns true for a record that was not read before.
    mutating func takeNew(_ value: [UInt8]) -> Bool { self.known.insert(value).inserted }

    /// Goes on behind entries of which the last one is of that time.
    mutating func advance(over count: Int, to last: Int64) {
        self.isAtEnd = count < StoreLimits.undoPerCallMax
        (self.from, self.first) = last > self.from ? (last, 0) : (self.from, self.first + count)
    }
}
