internal import ApusCore
internal import ApusMessages
internal import ApusRedis

/// Calls the store's functions: their answers become words at once.
struct StoreCalls: Sendable {
    let client: RedisClient
    let keys: StoreKeys
    /// The encryption of records.
    var encryption = RecordEncryption()

    /// True when a user's list may have lost a device whose record is there, although it was written first: masters of a cluster lose
    /// writes apart.
    var mayLoseHints: Bool { self.client.configuration.deployment == .cluster }

    /// Returns a packed record as it is stored.
    func sealed(_ record: [UInt8], of app: AppID) throws(StoreError) -> [UInt8] {
        try self.encryption.cipher.seal(record, of: app)
    }

    /// The devices that `apus2_find_devices` finds, and when by Redis' clock.
    struct Finding: Sendable {
        var at: UnixMilliseconds
        /// The devices that the app has in the partition; 0 when they were not counted.
        var deviceCount = 0
        var devices: [Found] = []
    }

    /// A device as `apus2_find_devices` finds it.
    struct Found: Sendable {
        /// The position among the digests that were asked for.
        let index: Int
        let realm: Realm
        let ordinal: UInt32
        let value: [UInt8]
        /// Its badge; nil when nobody asked for it.
        var badge: UInt32?
    }

    /// The record that `put` is to write.
    struct Writing: Sendable {
        var expected: [UInt8]
        var record: [UInt8]
        var stamp: Stamp
        var entered: [UInt32]
        var left: [UInt32]
        /// The event for the device's history, if it has one; empty: none.
        var event: [UInt8] = []
        /// The header and record that must be kept of the removed device; empty: none need be. A write of many devices ignores it.
        var pruned: [UInt8] = []
    }

    /// The change of the time of registration.
    enum Stamp: Sendable {
        /// The server's time.
        case now
        /// The time stays as it was.
        case keep
        /// This time, or now if it lies in the future.
        case asOf(UnixMilliseconds)

        /// The change as the function takes it.
        var text: String {
            switch self {
            case .now: "now"
            case .keep: "keep"
            case .asOf(let time): String(max(0, time.value))
            }
        }
    }

    enum PutAnswer: Sendable {
        case written(ordinal: UInt32, header: [UInt8])
        case mismatch
        /// There is no such device, and one was removed after the time of this registration.
        case gone
        /// The place has no ordinal left.
        case full
        /// The write of this device failed, in the words of Redis; those of others did not.
        case failed(String)
    }

    enum ClaimAnswer: Sendable {
        /// Claimed; these must be cleared of the token.
        case claimed([DeviceOwner])
        /// Not claimed: too many claims were left unfinished. These must be cleared and released first.
        case crowded([DeviceOwner])
        /// The device is the only owner, and settled: nothing was written.
        case settled
        /// Others own it or have claimed it, and it was left to them: nothing was written.
        case leftToOthers

        var others: [DeviceOwner] {
            switch self {
            case .claimed(let others), .crowded(let others): others
            case .settled, .leftToOthers: []
            }
        }
    }

    /// Bytes of a token's digest that name its entry.
    static let tokenPrefixByteCount = 5
    /// Bytes of a user's digest that name their entry.
    static let userPrefixByteCount = 4

    enum ConfirmAnswer: Sendable {
        case settled
        /// Somebody released the claim: claim again.
        case withdrawn
        /// Another device claimed after this one.
        case superseded
    }

    enum AddUserAnswer: Sendable {
        /// The user may have the device.
        case added
        /// The user has as many devices as may be.
        case full
        /// The user was forgotten after the time of the registration.
        case forgotten

        /// Reads the answer; nil when it has another form.
        init?(_ node: RESPNode) {
            switch node.integer {
            case 0, 1: self = .added
            case -1: self = .full
            case -2: self = .forgotten
            default: return nil
            }
        }
    }

    /// The owner of a token.
    struct TokenOwner: Hashable, Sendable {
        var isSettled: Bool
        var device: DeviceOwner
    }

    // MARK: Devices

    /// Returns the call that reads devices by the digests of their ids.
    ///
    /// - Parameters:
    ///   - omitsTime: when true, the finding's time is meaningless.
    ///   - countsDevices: true to count all devices of those realms, too.
    ///   - withBadges: true to read the devices' badges, too.
    func findDevices(
        _ app: AppID,
        _ partition: Int,
        _ digests: [UInt64],
        realms: [Realm] = Realm.allCases,
        omitsTime: Bool = false,
        countsDevices: Bool = false,
        withBadges: Bool = false,
    ) -> UnsentCall<Finding> {
        let call = FindDevicesCall(
            keys: realms.map { self.keys.meta(app, $0, partition) },
            digests: digests.map { bigEndian($0) },
            omitsTime: omitsTime,
            countsDevices: countsDevices,
            withBadges: withBadges,
        )
        return self.unsent(call, partition) { reply in
            var nodes = reply.children.makeIterator()
            guard let now = nodes.next()?.integer, let count = nodes.next()?.integer else { return nil }
            var found = Finding(at: UnixMilliseconds(now), deviceCount: Int(count))
            while let node = nodes.next() {
                // An element that is passed over would look like a device that is gone.
                guard let index = node.integer, let realm = nodes.next()?.integer,
                    let ordinal = nodes.next()?.integer, let value = nodes.next()?.bytes,
                    digests.indices.contains(Int(index)), realms.indices.contains(Int(realm))
                else { return nil }
                var device = Found(
                    index: Int(index),
                    realm: realms[Int(realm)],
                    ordinal: UInt32(ordinal),
                    value: value
                )
                if withBadges {
                    guard let badge = nodes.next()?.bytes else { return nil }
                    device.badge = StoredBadge(badge)?.count ?? 0
                }
                found.devices.append(device)
            }
            return found
        }
    }

    /// - Parameter isVerdict: whether it is a provider's verdict that is written, which a full Redis takes.
    func put(
        _ app: AppID,
        _ realm: Realm,
        _ owner: DeviceOwner,
        _ writing: Writing,
        isVerdict: Bool,
    ) async throws(StoreError) -> PutAnswer {
        let realms = [realm] + Realm.allCases.filter { $0 != realm }
        let call = PutDeviceCall(
            keys: realms.map { self.keys.meta(app, $0, owner.partition) },
            digest: bigEndian(owner.digest),
            writing: writing,
        )
        let reply =
            isVerdict
            ? try await self.call(PutVerdictCall(put: call), owner.partition)
            : try await self.call(call, owner.partition)
        switch reply.element(0)?.integer {
        case 1:
            guard let ordinal = reply.element(1)?.integer, let header = reply.element(2)?.bytes else {
                throw Self.unexpected(PutDeviceCall.function)
            }
            return .written(ordinal: UInt32(ordinal), header: header)
        case 0: return .mismatch
        case -1: return .full
        default: throw Self.unexpected(PutDeviceCall.function)
        }
    }

    /// Returns the call that writes devices of one partition; at most `StoreLimits.registrationsPerCallMax`, of different digests.
    func put(
        _ app: AppID,
        _ partition: Int,
        _ devices: [(realm: Realm, owner: DeviceOwner, writing: Writing)],
    ) -> UnsentCall<[PutAnswer]> {
        let realms = Realm.allCases
        let call = PutDevicesCall(
            keys: realms.map { self.keys.meta(app, $0, partition) },
            devices: devices.map { device in
                guard let place = realms.firstIndex(of: device.realm) else { preconditionFailure("the realm is known") }
                return PutDevicesCall.Device(
                    place: place + 1,
                    digest: bigEndian(device.owner.digest),
                    writing: device.writing,
                )
            },
        )
        return self.unsent(call, partition) { reply in
            Self.elements(reply, devices.count) { element in
                guard let bytes = element.bytes, let letter = bytes.first else { return nil }
                switch letter {
                case UInt8(ascii: "w"):
                    guard bytes.count == 5 + RecordHeader.byteCount else { return nil }
                    let ordinal = bytes[1..<5].reduce(0) { $0 << 8 | UInt32($1) }
                    return .written(ordinal: ordinal, header: Array(bytes.dropFirst(5)))
                case UInt8(ascii: "o"): return .mismatch
                case UInt8(ascii: "g"): return .gone
                case UInt8(ascii: "f"): return .full
                case UInt8(ascii: "e"): return .failed(String(decoding: bytes.dropFirst(), as: UTF8.self))
                default: return nil
                }
            }
        }
    }

    /// - Parameters:
    ///   - forgetsHistory: whether the device's history goes, too.
    ///   - undo: how the device can be brought back; nil: not at all.
    ///   - event: what its history says of that; nil: nothing.
    ///   - isRemembered: true to remember the removal for registrations that are older.
    ///   - asOf: the time that the removal is of; nil for the present.
    /// - Returns: false when something else is stored.
    func remove(
        _ device: StoredDevice,
        _ owner: DeviceOwner,
        forgetsHistory: Bool = false,
        undo: DeviceStore.UndoRules? = nil,
        event: DeviceStore.RemovalEvent? = nil,
        isRemembered: Bool = false,
        asOf: UnixMilliseconds? = nil,
    ) async throws(StoreError) -> Bool {
        let call = RemoveDeviceCall(
            keys: [self.keys.meta(device.app, device.realm, owner.partition)],
            digest: bigEndian(owner.digest),
            expected: device.value,
            topics: packed(device.record.topics),
            forgetsHistory: forgetsHistory,
            undoMilliseconds: undo?.keepMilliseconds ?? 0,
            undoDevicesMax: undo.map { self.keys.share(of: $0.devicesMax) } ?? 0,
            asOf: asOf?.value ?? 0,
            rememberMilliseconds: isRemembered ? StoreLimits.removalMilliseconds : 0,
            event: event?.event.bytes ?? [],
            keepHistoryMilliseconds: event?.rules.keepMilliseconds ?? 0,
            historiesMax: event.map { self.keys.share(of: $0.rules.devicesMax) } ?? 0,
        )
        return try await self.call(call, owner.partition).integer == 1
    }

    /// Remembers the removal of a device that is not there for registrations of an earlier time.
    ///
    /// - Returns: false when a device is there.
    func noteRemoval(_ app: AppID, _ owner: DeviceOwner, asOf: UnixMilliseconds) async throws(StoreError) -> Bool {
        let call = NoteRemovalCall(
            keys: Realm.allCases.map { self.keys.meta(app, $0, owner.partition) },
            digest: bigEndian(owner.digest),
            asOf: asOf.value,
            rememberMilliseconds: StoreLimits.removalMilliseconds,
        )
        return try await self.call(call, owner.partition).integer == 1
    }

    /// Reads the record at a place; nil when there is none.
    func record(_ app: AppID, _ realm: Realm, partition: Int, ordinal: UInt32) async throws(StoreError) -> [UInt8]? {
        let slab = Int(ordinal) / StoreLimits.slabOrdinals
        let reply = try await self.send(
            RedisCommand(
                "HGET",
                .text(self.keys.slab(app, realm, partition, slab)),
                .integer(Int(ordinal) % StoreLimits.slabOrdinals),
            ),
            partition,
        )
        return reply.bytes
    }

    // MARK: Tokens

    func claim(
        _ app: AppID,
        _ token: Placed,
        by owner: DeviceOwner,
    ) async throws(StoreError) -> ClaimAnswer {
        let call = ClaimTokenCall(keys: self.keys(app, token), digest: bigEndian(token.digest), claimer: owner.bytes)
        let reply = try await self.call(call, token.partition)
        let others = reply.children.dropFirst().compactMap { $0.bytes.flatMap { DeviceOwner($0) } }
        switch reply.element(0)?.integer {
        case 1: return .claimed(others)
        case 0: return .crowded(others)
        default: throw Self.unexpected(ClaimTokenCall.function)
        }
    }

    func confirm(
        _ app: AppID,
        _ token: Placed,
        by owner: DeviceOwner,
        cleared: [DeviceOwner],
    ) async throws(StoreError) -> ConfirmAnswer {
        let call = ConfirmTokenCall(
            keys: self.keys(app, token),
            digest: bigEndian(token.digest),
            claimer: owner.bytes,
            cleared: cleared.flatMap(\.bytes),
        )
        let reply = try await self.call(call, token.partition)
        switch reply.integer {
        case 1: return .settled
        case 0: return .withdrawn
        case -1: return .superseded
        default: throw Self.unexpected(ConfirmTokenCall.function)
        }
    }

    /// Returns the call that claims tokens of one partition, at most `StoreLimits.registrationsPerCallMax`.
    ///
    /// - Parameter leavesOwned: true to leave what others own or have claimed to them.
    func claim(
        _ app: AppID,
        _ partition: Int,
        _ claims: [(token: UInt64, device: DeviceOwner)],
        leavesOwned: Bool = false,
    ) -> UnsentCall<[ClaimAnswer]> {
        let call = ClaimTokensCall(
            keys: [self.keys.meta(app, partition)],
            claims: Self.pairs(claims),
            leavesOwned: leavesOwned
        )
        return self.unsent(call, partition) { reply in
            Self.elements(reply, claims.count) { element in
                guard let bytes = element.bytes, let letter = bytes.first else { return nil }
                let others = DeviceOwner.list(Array(bytes.dropFirst()))
                return switch letter {
                case UInt8(ascii: "s"): .settled
                case UInt8(ascii: "c"): .claimed(others)
                case UInt8(ascii: "f"): .crowded(others)
                case UInt8(ascii: "o"): .leftToOthers
                default: nil
                }
            }
        }
    }

    /// Returns the call that confirms claims of tokens of one partition, of which nobody had to be cleared; at most
    /// `StoreLimits.registrationsPerCallMax`.
    func confirm(
        _ app: AppID,
        _ partition: Int,
        _ claims: [(token: UInt64, device: DeviceOwner)],
    ) -> UnsentCall<[ConfirmAnswer]> {
        let call = ConfirmTokensCall(keys: [self.keys.meta(app, partition)], claims: Self.pairs(claims))
        return self.unsent(call, partition) { reply in
            Self.elements(reply, claims.count) { element in
                switch element.integer {
                case 1: .settled
                case 0: .withdrawn
                case -1: .superseded
                default: nil
                }
            }
        }
    }

    /// Returns the call that tells for which tokens of one partition the device is the only owner, and settled; at most
    /// `StoreLimits.registrationsPerCallMax`.
    func areSettled(
        _ app: AppID,
        _ partition: Int,
        _ claims: [(token: UInt64, device: DeviceOwner)],
    ) -> UnsentCall<[Bool]> {
        let call = SettledTokensCall(keys: [self.keys.meta(app, partition)], claims: Self.pairs(claims))
        return self.unsent(call, partition) { reply in
            Self.elements(reply, claims.count) { $0.integer.map { $0 == 1 } }
        }
    }

    /// Returns true when two tokens have the same entry, by the beginning of their digests.
    func sharesEntry(_ app: AppID, _ one: [UInt8], _ other: [UInt8]) -> Bool {
        self.placed(app, one).shares(Self.tokenPrefixByteCount, with: self.placed(app, other))
    }

    /// Returns true when two users have the same entry.
    func sharesEntry(_ app: AppID, user one: String, _ other: String) -> Bool {
        !one.isEmpty && !other.isEmpty
            && self.placed(app, one).shares(Self.userPrefixByteCount, with: self.placed(app, other))
    }

    func release(_ app: AppID, _ token: Placed, from owner: DeviceOwner) async throws(StoreError) {
        let call = ReleaseTokenCall(keys: self.keys(app, token), digest: bigEndian(token.digest), owner: owner.bytes)
        _ = try await self.call(call, token.partition)
    }

    func owners(_ app: AppID, _ token: Placed) async throws(StoreError) -> [TokenOwner] {
        let call = TokenOwnersCall(keys: self.keys(app, token), digest: bigEndian(token.digest))
        let reply = try await self.call(call, token.partition)
        return reply.children.compactMap { node in
            guard let bytes = node.bytes, let owner = DeviceOwner(bytes.dropFirst()) else { return nil }
            return TokenOwner(isSettled: bytes[0] == UInt8(ascii: "s"), device: owner)
        }
    }

    // MARK: Users

    /// - Parameter asOf: the time of the registration that says so, if it has one.
    func addUser(
        _ app: AppID,
        _ user: Placed,
        of owner: DeviceOwner,
        asOf: UnixMilliseconds?,
    ) async throws(StoreError) -> AddUserAnswer {
        let call = AddUserCall(
            keys: self.keys(app, user),
            digest: bigEndian(user.digest),
            device: owner.bytes,
            devicesMax: StoreLimits.devicesPerUserMax,
            registered: asOf?.value ?? 0,
        )
        let reply = try await self.call(call, user.partition)
        guard let answer = AddUserAnswer(reply) else { throw Self.unexpected(AddUserCall.function) }
        return answer
    }

    /// Returns the call that notes that users of one partition may have devices; at most `StoreLimits.registrationsPerCallMax`.
    func addUsers(
        _ app: AppID,
        _ partition: Int,
        _ additions: [(user: UInt64, device: DeviceOwner, asOf: UnixMilliseconds?)],
    ) -> UnsentCall<[AddUserAnswer]> {
        let isTimed = additions.contains { $0.asOf != nil }
        let call = AddUsersCall(
            keys: [self.keys.meta(app, partition)],
            additions: Self.pairs(additions.map { ($0.user, $0.device) }),
            devicesMax: StoreLimits.devicesPerUserMax,
            times: isTimed ? additions.map { $0.asOf?.value ?? 0 } : [],
        )
        return self.unsent(call, partition) { reply in
            Self.elements(reply, additions.count) { AddUserAnswer($0) }
        }
    }

    /// Remembers that a user was forgotten for registrations of an earlier time.
    func noteRemoval(_ app: AppID, ofUser user: Placed, asOf: UnixMilliseconds) async throws(StoreError) {
        let call = NoteUserRemovalCall(
            keys: self.keys(app, user),
            digest: bigEndian(user.digest),
            asOf: asOf.value,
            rememberMilliseconds: StoreLimits.removalMilliseconds,
        )
        _ = try await self.call(call, user.partition)
    }

    func removeUser(_ app: AppID, _ user: Placed, of owner: DeviceOwner) async throws(StoreError) {
        let call = RemoveUserCall(keys: self.keys(app, user), digest: bigEndian(user.digest), device: owner.bytes)
        _ = try await self.call(call, user.partition)
    }

    func userDevices(
        _ app: AppID,
        _ partition: Int,
        _ digests: [UInt64],
    ) async throws(StoreError) -> [[DeviceOwner]] {
        let call = UserDevicesCall(keys: [self.keys.meta(app, partition)], digests: digests.map { bigEndian($0) })
        let reply = try await self.call(call, partition)
        return reply.children.map { DeviceOwner.list($0.bytes ?? []) }
    }

    // MARK: Topics

    /// Reads the number of a topic; nil when it has none.
    ///
    /// - Parameter enters: whether a device is to enter it: then nil also when it is thought to be empty, so that it is numbered again.
    func findTopic(_ app: AppID, _ topic: TopicName, enters: Bool = false) async throws(StoreError) -> UInt32? {
        let name = self.placed(app, topic.text)
        let call = FindTopicCall(
            keys: self.keys(app, name),
            digest: bigEndian(name.digest),
            name: topic.text,
            enters: enters,
        )
        let reply = try await self.call(call, name.partition)
        guard let counter = reply.integer else { throw Self.unexpected(FindTopicCall.function) }
        return counter == 0 ? nil : self.topicNumber(counter: counter, partition: name.partition)
    }

    /// Returns the call that reads the numbers of topics of one partition that devices are to enter; nil where there is none, or it is
    /// thought to be empty. At most `StoreLimits.registrationsPerCallMax`.
    func findTopics(
        _ app: AppID,
        _ partition: Int,
        _ topics: [(name: TopicName, digest: UInt64)],
    ) -> UnsentCall<[UInt32?]> {
        let call = FindTopicsCall(
            keys: [self.keys.meta(app, partition)],
            topics: topics.map { bigEndian($0.digest) + Array($0.name.text.utf8) },
        )
        return self.unsent(call, partition) { reply in
            Self.elements(reply, topics.count) { element -> UInt32?? in
                guard let counter = element.integer else { return .none }
                return .some(counter == 0 ? nil : self.topicNumber(counter: counter, partition: partition))
            }
        }
    }

    /// Returns the number of a topic, and gives it one when it has none.
    func numberTopic(_ app: AppID, _ topic: TopicName) async throws(StoreError) -> UInt32 {
        let name = self.placed(app, topic.text)
        let call = NumberTopicCall(
            keys: self.keys(app, name),
            digest: bigEndian(name.digest),
            name: topic.text,
            counterMax: StoreLimits.topicNumberMax / self.keys.keyspace.devicePartitions - 1,
        )
        let reply = try await self.call(call, name.partition)
        switch reply.integer {
        case -1: throw StoreError(.full, "no topic number is left")
        case .some(let counter) where counter > 0:
            return self.topicNumber(counter: counter, partition: name.partition)
        default: throw Self.unexpected(NumberTopicCall.function)
        }
    }

    /// Records that a device is about to enter a topic again. One that has been forgotten meanwhile gets no number.
    func keepTopic(_ app: AppID, _ topic: TopicName) async throws(StoreError) {
        let name = self.placed(app, topic.text)
        let call = NumberTopicCall(
            keys: self.keys(app, name),
            digest: bigEndian(name.digest),
            name: topic.text,
            counterMax: 0,
        )
        _ = try await self.call(call, name.partition)
    }

    /// Reads the names of topics of one partition; nil where there is none.
    func topicNames(
        _ app: AppID,
        _ partition: Int,
        _ numbers: [UInt32],
    ) async throws(StoreError) -> [String?] {
        let call = TopicNamesCall(
            keys: [self.keys.meta(app, partition)],
            counters: numbers.map { Int($0) / self.keys.keyspace.devicePartitions },
        )
        let reply = try await self.call(call, partition)
        return reply.children.map { node in node.string.flatMap { $0.isEmpty ? nil : $0 } }
    }

    // MARK: Calling

    /// The place that an id leads to.
    struct Placed: Hashable, Sendable {
        let partition: Int
        let digest: UInt64

        /// Returns true when the first bytes of the digests, and the partitions, are the same.
        func shares(_ byteCount: Int, with other: Placed) -> Bool {
            self.partition == other.partition && (self.digest ^ other.digest) >> UInt64(64 - 8 * byteCount) == 0
        }
    }

    func placed(_ app: AppID, _ id: String) -> Placed { self.placed(app, Array(id.utf8)) }

    func placed(_ app: AppID, _ id: [UInt8]) -> Placed {
        let placement = self.keys.keyspace.placement(app: Array(app.text.utf8), id: id)
        return Placed(partition: placement.partition, digest: placement.digest)
    }

    /// Sends a command that may be repeated.
    func send(_ command: RedisCommand, _ partition: Int) async throws(StoreError) -> RESPNode {
        do throws(RedisError) {
            return try await self.client.send(command, on: self.keys.tag(partition), options: .idempotent).root
        } catch {
            throw StoreError(.redis, "\(error)", redis: error)
        }
    }

    func call<Call: FunctionCall>(_ call: Call, _ partition: Int) async throws(StoreError) -> RESPNode {
        do throws(RedisError) {
            return try await self.client.call(call, on: self.keys.tag(partition)).root
        } catch {
            throw StoreError(.redis, "\(Call.function): \(error)", redis: error)
        }
    }

    /// Returns the key of tokens, users or topics.
    private func keys(_ app: AppID, _ id: Placed) -> [String] { [self.keys.meta(app, id.partition)] }

    private func topicNumber(counter: Int64, partition: Int) -> UInt32 {
        UInt32(counter) * UInt32(self.keys.keyspace.devicePartitions) + UInt32(partition)
    }

    /// Digests with devices as the functions take them: 18 bytes each.
    private static func pairs(_ pairs: [(UInt64, DeviceOwner)]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(pairs.count * (8 + DeviceOwner.byteCount))
        for (digest, device) in pairs {
            bytes += bigEndian(digest)
            bytes += device.bytes
        }
        return bytes
    }

    /// An answer of another form says nothing against the data or the caller's entry: the same is asked again later.
    static func unexpected(_ function: String) -> StoreError {
        let error = RedisError(.unexpectedReply, "\(function) gave an answer of another form")
        return StoreError(.redis, error.message, redis: error)
    }
}
