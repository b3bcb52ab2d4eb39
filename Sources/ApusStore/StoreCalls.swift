internal import ApusCore
internal import ApusMessages
internal import ApusRedis

/// Calls the store's functions: their answers become words at once.
struct StoreCalls: Sendable {
    let client: RedisClient
    let keys: StoreKeys

    /// The devices that `apus2_find_devices` finds, and when by Redis' clock.
    struct Finding: Sendable {
        var at: UnixMilliseconds
        var devices: [Found] = []
    }

    /// A device as `apus2_find_devices` finds it.
    struct Found: Sendable {
        /// Which of the digests asked for.
        let index: Int
        let realm: Realm
        let ordinal: UInt32
        let value: [UInt8]
    }

    /// What `put` is to write.
    struct Writing: Sendable {
        var expected: [UInt8]
        var record: [UInt8]
        var stamp: Stamp
        var entered: [UInt32]
        var left: [UInt32]
        /// The event for the device's history, if it has one; empty: none.
        var event: [UInt8] = []
    }

    /// What becomes of registered-at.
    enum Stamp: Sendable {
        /// The server's time.
        case now
        /// As it was.
        case keep
        /// That time, but not one to come.
        case asOf(UnixMilliseconds)

        /// As the function takes it.
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
    }

    enum ClaimAnswer: Sendable {
        /// Claimed; these must be cleared of the token.
        case claimed([DeviceOwner])
        /// Not claimed: too many claims were left unfinished. These must be cleared and released first.
        case crowded([DeviceOwner])

        var others: [DeviceOwner] {
            switch self {
            case .claimed(let others), .crowded(let others): others
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

    /// Who holds a token.
    struct TokenOwner: Hashable, Sendable {
        var isSettled: Bool
        var device: DeviceOwner
    }

    // MARK: Devices

    func devices(
        _ app: AppID,
        _ partition: Int,
        _ digests: [UInt64],
        realms: [Realm] = Realm.allCases,
    ) async throws(StoreError) -> Finding {
        let call = FindDevicesCall(
            keys: realms.map { self.keys.meta(app, $0, partition) },
            digests: digests.map { bigEndian($0) },
        )
        let reply = try await self.call(call, partition)
        var nodes = reply.children.makeIterator()
        guard let now = nodes.next()?.integer else { throw Self.unexpected(FindDevicesCall.function) }
        var found = Finding(at: UnixMilliseconds(now))
        while let index = nodes.next()?.integer, let realm = nodes.next()?.integer {
            guard let ordinal = nodes.next()?.integer, let value = nodes.next()?.bytes,
                digests.indices.contains(Int(index)), realms.indices.contains(Int(realm))
            else { throw Self.unexpected(FindDevicesCall.function) }
            found.devices.append(
                Found(index: Int(index), realm: realms[Int(realm)], ordinal: UInt32(ordinal), value: value)
            )
        }
        return found
    }

    /// - Parameter judges: whether it is a provider's verdict that is written, which a full Redis takes.
    func put(
        _ app: AppID,
        _ realm: Realm,
        _ owner: DeviceOwner,
        _ writing: Writing,
        judges: Bool,
    ) async throws(StoreError) -> PutAnswer {
        let realms = [realm] + Realm.allCases.filter { $0 != realm }
        let call = PutDeviceCall(
            keys: realms.map { self.keys.meta(app, $0, owner.partition) },
            digest: bigEndian(owner.digest),
            writing: writing,
        )
        let reply =
            judges
            ? try await self.call(PutVerdictCall(put: call), owner.partition)
            : try await self.call(call, owner.partition)
        switch reply.element(0)?.integer {
        case 1:
            guard let ordinal = reply.element(1)?.integer, let header = reply.element(2)?.bytes else {
                throw Self.unexpected(PutDeviceCall.function)
            }
            return .written(ordinal: UInt32(ordinal), header: header)
        case 0: return .mismatch
        case -1: throw StoreError(.full, "partition \(owner.partition) has no ordinal left")
        default: throw Self.unexpected(PutDeviceCall.function)
        }
    }

    /// - Parameters:
    ///   - forgetsHistory: whether the device's history goes, too, and whatever could bring it back.
    ///   - undo: how the device can be brought back; nil: not at all.
    /// - Returns: false when something else is stored.
    func remove(
        _ device: StoredDevice,
        _ owner: DeviceOwner,
        forgetsHistory: Bool = false,
        undo: DeviceStore.UndoRules? = nil,
    ) async throws(StoreError) -> Bool {
        let call = RemoveDeviceCall(
            keys: [self.keys.meta(device.app, device.realm, owner.partition)],
            digest: bigEndian(owner.digest),
            expected: device.value,
            topics: packed(device.record.topics),
            forgetsHistory: forgetsHistory,
            undoMilliseconds: undo?.keepMilliseconds ?? 0,
            undoDevicesMax: undo.map { self.keys.share(of: $0.devicesMax) } ?? 0,
        )
        return try await self.call(call, owner.partition).integer == 1
    }

    /// The record at a place; nil when there is none.
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

    /// Whether two tokens have the same entry, by the beginning of their digests.
    func sharesEntry(_ app: AppID, _ one: [UInt8], _ other: [UInt8]) -> Bool {
        self.placed(app, one).shares(Self.tokenPrefixByteCount, with: self.placed(app, other))
    }

    /// Whether two users have the same entry.
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

    /// - Returns: false when the user has as many devices as may be.
    func addUser(_ app: AppID, _ user: Placed, of owner: DeviceOwner) async throws(StoreError) -> Bool {
        let call = AddUserCall(
            keys: self.keys(app, user),
            digest: bigEndian(user.digest),
            device: owner.bytes,
            devicesMax: StoreLimits.devicesPerUserMax,
        )
        let reply = try await self.call(call, user.partition)
        return reply.integer != -1
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

    /// The number of a topic; nil when it has none.
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

    /// The number of a topic, which gets one when it has none.
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

    /// The names of topics of one partition; nil where there is none.
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

    /// Where an id leads.
    struct Placed: Hashable, Sendable {
        let partition: Int
        let digest: UInt64

        /// Whether the first bytes of the digests, and the partitions, are the same.
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

    /// The key of tokens, users or topics.
    private func keys(_ app: AppID, _ id: Placed) -> [String] { [self.keys.meta(app, id.partition)] }

    private func topicNumber(counter: Int64, partition: Int) -> UInt32 {
        UInt32(counter) * UInt32(self.keys.keyspace.devicePartitions) + UInt32(partition)
    }

    static func unexpected(_ function: String) -> StoreError {
        StoreError(.corrupt, "\(function) gave an answer of another form")
    }
}
