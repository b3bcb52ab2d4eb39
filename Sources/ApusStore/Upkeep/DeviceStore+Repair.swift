package import ApusCore
internal import ApusMessages
internal import ApusRedis

/// Repairs what crashes leave, step by step and at any time: a process that died between two steps left a superfluous hint, or a token with
/// a claim that was never confirmed. Every step is safe beside running registrations.
extension DeviceStore {
    /// Holds the progress of a walk over the hints of a partition.
    package struct RepairStep: Hashable, Sendable {
        /// The number of hints that were repaired.
        package var repaired: Int
        /// The next bucket; nil after the last one.
        package var nextBucket: Int?
    }

    /// Repairs the hints of one bucket of tokens: finishes claims, and drops owners that do not hold the token.
    package func repairTokens(
        _ app: AppID,
        _ partition: Int,
        bucket: Int,
    ) async throws(StoreError) -> RepairStep {
        var repaired = 0
        for (prefix, value) in try await self.entries(.tokens, app, partition, bucket) {
            let all = Self.tokenOwners(value)
            let (devices, corrupt) = try await self.readable(app, all.map(\.device))
            // A record that cannot be read may have the token.
            let owners = all.filter { !corrupt.contains($0.device) }
            let holders = owners.compactMap { owner in
                devices[owner.device].flatMap { device in
                    prefix.leads(self.calls.placed(app, device.record.token)) ? (owner.device, device) : nil
                }
            }
            if owners.allSatisfy(\.isSettled), holders.count == owners.count,
                Set(holders.map { $0.1.record.token }).count == holders.count
            {
                continue
            }
            repaired += 1
            var settled: Set<[UInt8]> = []
            for (owner, device) in holders where settled.insert(device.record.token).inserted {
                // The latest claimer that holds the token keeps it.
                try await self.settle(device.record.token, Home(app: app, id: device.id, owner: owner))
            }
            let placed = StoreCalls.Placed(partition: partition, digest: prefix.digest)
            let others = owners.map(\.device).filter { owner in !holders.contains { $0.0 == owner } }
            // They may have been cleared for a claim that did not wait to the end.
            try await self.beginRemoval(of: others, from: placed).end()
            for owner in others {
                try await self.calls.release(app, placed, from: owner)
                let home = Home(app: app, id: nil, owner: owner)
                guard let device = try await self.read(home) else { continue }
                guard prefix.leads(self.calls.placed(app, device.record.token)) else { continue }
                try await self.settle(device.record.token, home)
            }
        }
        return try await self.step(.tokens, app, partition, bucket, repaired)
    }

    /// Repairs the hints of one bucket of users: drops devices that belong to nobody or to another user.
    package func repairUsers(
        _ app: AppID,
        _ partition: Int,
        bucket: Int,
    ) async throws(StoreError) -> RepairStep {
        var repaired = 0
        for (prefix, value) in try await self.entries(.users, app, partition, bucket) {
            let placed = StoreCalls.Placed(partition: partition, digest: prefix.digest)
            let owners = DeviceOwner.list(value)
            let (devices, corrupt) = try await self.readable(app, owners)
            func isTheirs(_ device: StoredDevice?) -> Bool {
                guard let user = device?.record.user, !user.isEmpty else { return false }
                return prefix.leads(self.calls.placed(app, user))
            }
            for owner in owners where !corrupt.contains(owner) && !isTheirs(devices[owner]) {
                repaired += 1
                try await self.calls.removeUser(app, placed, of: owner)
                let home = Home(app: app, id: nil, owner: owner)
                if let device = try await self.read(home), isTheirs(device) {
                    try await self.addUser(device.record.user, home)
                }
            }
        }
        return try await self.step(.users, app, partition, bucket, repaired)
    }

    /// Restores the hints that a device needs, if any is missing.
    ///
    /// - Returns: true when one was missing.
    package func repairHints(of device: StoredDevice) async throws(StoreError) -> Bool {
        let home = self.home(of: device)
        let (app, token, user) = (device.app, device.record.token, device.record.user)
        var isRepaired = false
        var owners = try await self.calls.owners(app, self.calls.placed(app, token))
        if owners.count > 1 {
            // A record that cannot be read may have the token, and keeps its place.
            let corrupt = try await self.readable(app, owners.map(\.device)).corrupt
            owners.removeAll { corrupt.contains($0.device) }
        }
        if owners != [StoreCalls.TokenOwner(isSettled: true, device: home.owner)] {
            try await self.settleHolder(of: token, among: owners, device)
            isRepaired = true
        }
        guard !user.isEmpty else { return isRepaired }
        let placed = self.calls.placed(app, user)
        if try await !self.calls.userDevices(app, placed.partition, [placed.digest])[0].contains(home.owner) {
            try await self.addUser(user, home)
            guard let now = try await self.read(home), now.record.user == user else {
                try await self.withdraw(token: nil, user: user, of: home)
                return true
            }
            isRepaired = true
        }
        return isRepaired
    }

    /// Settles a token that a device holds, and to which not only the device has a claim.
    private func settleHolder(
        of token: [UInt8],
        among owners: [StoreCalls.TokenOwner],
        _ device: StoredDevice,
    ) async throws(StoreError) {
        let home = self.home(of: device)
        guard owners.contains(where: { $0.device == home.owner }) else {
            // A master has forgotten a claim, or that this device was removed for a later one.
            return try await self.settle(token, home, asOf: device.registeredAt)
        }
        // The latest claimer that holds the token keeps it.
        let holders = try await self.readable(device.app, owners.map(\.device)).devices
        let last = owners.first { holders[$0.device]?.record.token == token }?.device ?? home.owner
        try await self.settle(token, Home(app: device.app, id: holders[last]?.id, owner: last))
    }

    /// Returns the entries of a bucket of hints.
    func entries(
        _ name: StoreKeys.AppBuckets,
        _ app: AppID,
        _ partition: Int,
        _ bucket: Int,
    ) async throws(StoreError) -> [(prefix: DigestPrefix, value: [UInt8])] {
        let key = self.keys.bucket(name, app, partition, bucket)
        var nodes = try await self.calls.send(RedisCommand("HGETALL", .text(key)), partition).children.makeIterator()
        var entries: [(DigestPrefix, [UInt8])] = []
        while let field = nodes.next()?.bytes, let value = nodes.next()?.bytes {
            entries.append((DigestPrefix(partition: partition, bytes: field), value))
        }
        return entries
    }

    /// The field of an entry: the first bytes of a digest of this partition. Digests that share them share the entry.
    struct DigestPrefix: Hashable, Sendable {
        let partition: Int
        let bytes: [UInt8]

        /// A digest that leads to the entry.
        var digest: UInt64 {
            (self.bytes + [UInt8](repeating: 0, count: 8)).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
        }

        /// Returns true when that digest leads to the entry.
        func leads(_ placed: StoreCalls.Placed) -> Bool {
            placed.partition == self.partition && bigEndian(placed.digest).starts(with: self.bytes)
        }
    }

    /// Returns how many buckets hints of that kind have.
    func bucketCount(
        _ name: StoreKeys.AppBuckets,
        _ app: AppID,
        _ partition: Int,
    ) async throws(StoreError) -> Int {
        let command = RedisCommand("HGET", .text(self.keys.meta(app, partition)), .text(name.rawValue))
        return Int(try await self.calls.send(command, partition).integer ?? 1)
    }

    /// Returns the owners in an entry of the token index.
    static func tokenOwners(_ value: [UInt8]) -> [StoreCalls.TokenOwner] {
        if let only = DeviceOwner(value) { return [StoreCalls.TokenOwner(isSettled: true, device: only)] }
        return stride(from: 0, to: value.count, by: DeviceOwner.byteCount + 1).compactMap { start in
            guard let device = DeviceOwner(value.dropFirst(start + 1).prefix(DeviceOwner.byteCount)) else { return nil }
            return StoreCalls.TokenOwner(isSettled: value[start] == UInt8(ascii: "s"), device: device)
        }
    }

    private func step(
        _ name: StoreKeys.AppBuckets,
        _ app: AppID,
        _ partition: Int,
        _ bucket: Int,
        _ repaired: Int,
    ) async throws(StoreError) -> RepairStep {
        let count = try await self.bucketCount(name, app, partition)
        return RepairStep(repaired: repaired, nextBucket: bucket + 1 < count ? bucket + 1 : nil)
    }
}
