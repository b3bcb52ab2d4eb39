internal import ApusCore
internal import ApusMessages
internal import ApusRedis

/// Reads the hints of one partition (tokens, or users) and compares them with the records.
struct HintCheck {
    /// The contradictions.
    private(set) var findings: [StoreFinding] = []
    /// The number of hints that no record bears out.
    private(set) var stale = 0
    /// The number of tokens whose claim was never confirmed, or that share the beginning of their digest.
    private(set) var unsettled = 0

    private let store: DeviceStore
    private let app: AppID
    private let name: StoreKeys.AppBuckets
    private let partition: Int

    /// - Parameter name: the kind of hint: tokens or users.
    init(_ store: DeviceStore, _ app: AppID, _ name: StoreKeys.AppBuckets, _ partition: Int) {
        precondition(name != .topics, "topics lead to no device")
        self.store = store
        self.app = app
        self.name = name
        self.partition = partition
    }

    private var scope: StoreFinding.Scope {
        self.name == .tokens ? .tokens(self.partition) : .users(self.partition)
    }

    /// Checks the partition.
    mutating func run() async throws(StoreError) {
        let before = try await self.counted()
        let buckets = try await self.store.bucketCount(self.name, self.app, self.partition)
        var count = 0
        for bucket in 0..<buckets {
            let entries = try await self.store.entries(self.name, self.app, self.partition, bucket)
            count += entries.count
            for (prefix, _) in entries
            where LinearHashing.bucket(of: LinearHashing.hash(digest: prefix.digest), among: buckets) != bucket {
                let place = "\(self.name.rawValue)/\(self.partition)"
                self.findings.append(StoreFinding(self.scope, "\(place), bucket \(bucket) has an entry of another"))
            }
            let hints = entries.map { prefix, value in
                (prefix, self.name == .tokens ? DeviceStore.tokenOwners(value) : Self.settled(DeviceOwner.list(value)))
            }
            let (devices, corrupt) = try await self.store.readable(self.app, hints.flatMap { $0.1.map(\.device) })
            for (prefix, owners) in hints {
                self.check(prefix, owners.filter { !corrupt.contains($0.device) }, devices)
            }
        }
        let after = try await self.counted()
        guard before == after, count != after else { return }
        let place = "\(self.name.rawValue)/\(self.partition)"
        self.findings.append(
            StoreFinding(
                self.scope,
                "\(place) counts \((after - count).magnitude) entries \(after > count ? "more" : "fewer") than it has"
            )
        )
    }

    private static func settled(_ owners: [DeviceOwner]) -> [StoreCalls.TokenOwner] {
        owners.map { StoreCalls.TokenOwner(isSettled: true, device: $0) }
    }

    private func counted() async throws(StoreError) -> Int {
        let meta = self.store.keys.meta(self.app, self.partition)
        let command = RedisCommand("HGET", .text(meta), .text("\(self.name.rawValue)_count"))
        return Int(try await self.store.calls.send(command, self.partition).integer ?? 0)
    }

    private mutating func check(
        _ prefix: DeviceStore.DigestPrefix,
        _ owners: [StoreCalls.TokenOwner],
        _ devices: [DeviceOwner: StoredDevice],
    ) {
        guard !owners.isEmpty else { return }
        if self.name == .tokens, owners.count != 1 || !owners[0].isSettled { self.unsettled += 1 }
        var holders: [[UInt8]: String] = [:]
        for owner in owners {
            guard let device = devices[owner.device], self.leads(prefix, device.record) else {
                self.stale += 1
                continue
            }
            guard self.name == .tokens else { continue }
            guard let other = holders.updateValue(device.id, forKey: device.record.token) else { continue }
            let both = [device.id, other].sorted().joined(separator: " and ")
            self.findings.append(StoreFinding(self.scope, "\(both) hold the same token", .hints(device: device.id)))
        }
    }

    private func leads(_ prefix: DeviceStore.DigestPrefix, _ record: DeviceRecord) -> Bool {
        if self.name == .tokens { return prefix.leads(self.store.calls.placed(self.app, record.token)) }
        return !record.user.isEmpty && prefix.leads(self.store.calls.placed(self.app, record.user))
    }
}
