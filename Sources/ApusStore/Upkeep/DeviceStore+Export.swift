package import ApusCore
internal import ApusMessages
internal import ApusRedis

/// Holds a device with the data beside its record.
package struct ExportedDevice: Sendable {
    /// The device.
    package let device: StoredDevice
    /// The names of its topics, sorted.
    package let topics: [String]
    /// Its badge; nil when it was never counted or set.
    package let badge: UInt32?

    /// Creates a device for an export.
    package init(device: StoredDevice, topics: [String], badge: UInt32?) {
        self.device = device
        self.topics = topics
        self.badge = badge
    }
}

extension DeviceStore {
    /// The maximum of names that an export keeps in memory.
    private static let topicNamesMax = 100_000

    /// Calls `body` with all devices of an app, a slab of at most 64 at a time. It is not a snapshot: a device that registers meanwhile may
    /// be left out, and one that moves between providers may come twice.
    ///
    /// - Parameter provider: the provider of the devices; nil for all.
    package func forEachDevice(
        _ app: AppID,
        of provider: Provider? = nil,
        _ body: ([ExportedDevice]) async throws -> Void,
    ) async throws {
        var names: [UInt32: String] = [:]
        for partition in 0..<self.keys.keyspace.devicePartitions {
            for realm in Realm.allCases where provider == nil || realm.provider == provider {
                let next = try await self.meta(realm.route(of: app), partition).nextOrdinal
                for slab in 0..<(next + StoreLimits.slabOrdinals - 1) / StoreLimits.slabOrdinals {
                    let devices = try await self.devices(app, realm, partition, slab: slab)
                    guard !devices.isEmpty else { continue }
                    let unknown = Set(devices.flatMap { $0.device.record.topics }).subtracting(names.keys)
                    if names.count + unknown.count > Self.topicNamesMax { names = [:] }
                    let wanted = Array(Set(devices.flatMap { $0.device.record.topics }).subtracting(names.keys))
                    for (number, name) in zip(wanted, try await self.topicNames(app, wanted)) {
                        names[number] = name?.text
                    }
                    try await body(
                        devices.map { device, badge in
                            let topics = device.record.topics.compactMap { names[$0] }.sorted()
                            return ExportedDevice(device: device, topics: topics, badge: badge)
                        }
                    )
                }
            }
        }
    }

    private func devices(
        _ app: AppID,
        _ realm: Realm,
        _ partition: Int,
        slab: Int,
    ) async throws(StoreError) -> [(device: StoredDevice, badge: UInt32?)] {
        var badges: [[UInt8]: UInt32] = [:]
        for (field, value) in try await self.fields(of: self.keys.badges(app, realm, partition, slab), partition) {
            badges[field] = StoredBadge(value)?.count
        }
        var devices: [(device: StoredDevice, badge: UInt32?)] = []
        for (field, value) in try await self.fields(of: self.keys.slab(app, realm, partition, slab), partition) {
            guard let position = UInt32(String(decoding: field, as: UTF8.self)) else { continue }
            let device = try StoredDevice(
                app: app,
                realm: realm,
                partition: partition,
                ordinal: UInt32(slab * StoreLimits.slabOrdinals) + position,
                value: value,
                cipher: self.encryption.cipher,
            )
            devices.append((device, badges[field]))
        }
        return devices.sorted { $0.device.reference.ordinal < $1.device.reference.ordinal }
    }
}
