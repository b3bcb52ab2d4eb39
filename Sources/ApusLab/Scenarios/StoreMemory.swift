package import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusRedis
internal import ApusStore
internal import ApusTerminal
internal import ApusTestKit
internal import Logging
internal import NIOPosix

/// Measures the memory that a device takes in Redis: record, id, token and user index, and its topic memberships, in a
/// store that holds nothing else.
///
/// Each device is in one topic of all devices, one of 20,000 and one of 100.
package struct StoreMemory: Sendable {
    /// The default number of devices.
    package static let defaultDevices = 1_000_000

    /// The forms of device ids.
    package enum IDForm: String, Hashable, Sendable, CaseIterable {
        /// Ids of about eight characters.
        case short
        /// UUIDs, as most apps use.
        case uuid
    }

    /// The contents of one store.
    private struct Population: Sendable {
        var devices: Int
        var provider: Provider
        var ids: IDForm
        var hasTopics: Bool
    }

    /// The number of devices in each store.
    package let devices: Int

    /// Creates a measurement.
    package init(devices: Int) {
        precondition((1...ScenarioOptions.devicesMax).contains(devices))
        self.devices = devices
    }

    /// Measures four stores, one after the other.
    ///
    /// - Parameter say: receives progress messages.
    package func run(_ say: @Sendable (String) -> Void) async throws -> Report {
        func measure(_ provider: Provider, _ ids: IDForm, hasTopics: Bool) async throws -> Double {
            let population = Population(devices: self.devices, provider: provider, ids: ids, hasTopics: hasTopics)
            let bytes = try await Self.measure(population)
            let words = "\(provider.name), \(ids.rawValue) ids, \(hasTopics ? "three topics each" : "no topics")"
            say("\(words): \(NumberText.json(bytes, 1).text) bytes a device")
            return bytes
        }
        let apple = try await measure(.apns, .uuid, hasTopics: true)
        let bare = try await measure(.apns, .uuid, hasTopics: false)
        return Report(
            devices: self.devices,
            bytesPerDevice: apple,
            bytesPerDeviceShortIDs: try await measure(.apns, .short, hasTopics: true),
            bytesPerDeviceFCM: try await measure(.fcm, .uuid, hasTopics: true),
            bytesPerSubscription: (apple - bare) / Double(Self.topicsPerDevice),
        )
    }

    private static let topicsPerDevice = 3

    private static func measure(_ population: Population) async throws -> Double {
        let server = try await RedisServer.start()
        do {
            let client = try RedisClient(
                configuration: RedisConfiguration(url: server.url, clientName: "apus-memory"),
                eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
                logger: Logger(label: "memory") { _ in SwiftLogNoOpLogHandler() },
            )
            do {
                let bytes = try await Self.measure(population, client)
                await client.close()
                await server.stop()
                return bytes
            } catch {
                await client.close()
                throw error
            }
        } catch {
            await server.stop()
            throw error
        }
    }

    private static func measure(_ population: Population, _ client: RedisClient) async throws -> Double {
        try await Installation.initialize(client, keyspace: Keyspace())
        let installation = try await Installation(client, clock: SystemClock())
        let tag = installation.keyspace.tag(shard: 0)
        let empty = try await client.usedBytes(tag)
        try await installation.store.load(AppID("memory"), count: population.devices) { index in
            Self.registration(index, population)
        }
        return Double(try await client.usedBytes(tag) - empty) / Double(population.devices)
    }

    private static func registration(_ index: Int, _ population: Population) -> DeviceRegistration {
        var random = SeededGenerator(seed: UInt64(index))
        let token = population.provider == Provider.apns ? SampleToken.apple(&random) : SampleToken.google(&random)
        let id: String
        switch population.ids {
        case .short: id = "d\(index)"
        case .uuid: id = Self.uuid(&random)
        }
        var registration = DeviceRegistration(device: id, provider: population.provider, token: token)
        registration.user = "u\(index)"
        if population.hasTopics {
            registration.topics = ["all", "segment-\(index / 20_000)", "group-\(index / 100)"]
        }
        return registration
    }

    private static func uuid(_ random: inout SeededGenerator) -> String {
        var bytes = (0..<16).map { _ in UInt8.random(in: 0...255, using: &random) }
        bytes[6] = bytes[6] & 0x0f | 0x40
        bytes[8] = bytes[8] & 0x3f | 0x80
        let digits = Array(Hexadecimal.encode(bytes))
        return [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(digits[$0]) }.joined(separator: "-")
    }

    /// The measured figures.
    package struct Report: Hashable, Sendable {
        /// The maximum bytes of a device with an APNs token.
        static let bytesPerDeviceMax = 200.0

        /// The number of devices in each store.
        package let devices: Int
        /// The bytes of a device with an APNs token and a UUID as its id.
        package let bytesPerDevice: Double
        /// The bytes of a device with an APNs token and a short id.
        package let bytesPerDeviceShortIDs: Double
        /// The bytes of a device with an FCM token.
        package let bytesPerDeviceFCM: Double
        /// The bytes of one topic membership, on average over the three.
        package let bytesPerSubscription: Double

        /// True when the bar is kept.
        var isWithin: Bool { self.bytesPerDevice <= Self.bytesPerDeviceMax }

        /// Returns the report as JSON.
        package func json(revision: String) -> JSONObject {
            [
                "scenario": .string(LoadScenario.memory.rawValue), "devices": .integer(self.devices),
                "redis_bytes_per_device": Self.number(self.bytesPerDevice),
                "redis_bytes_per_device_max": Self.number(Self.bytesPerDeviceMax),
                "redis_bytes_per_device_short_ids": Self.number(self.bytesPerDeviceShortIDs),
                "redis_bytes_per_device_fcm": Self.number(self.bytesPerDeviceFCM),
                "redis_bytes_per_subscription": Self.number(self.bytesPerSubscription),
                "passed": .bool(self.isWithin), "machine": .object(Machine.current.json),
                "revision": .string(revision),
            ]
        }

        /// The sentences about problems; empty when there are none.
        package var problems: [String] {
            guard !self.isWithin else { return [] }
            return [
                "a device takes \(Self.text(self.bytesPerDevice)) bytes of Redis, at most "
                    + "\(Self.text(Self.bytesPerDeviceMax)) are allowed"
            ]
        }

        /// The report as lines.
        package var lines: [String] {
            [
                "\(self.devices) devices, each in a topic of all, one of 20,000 and one of 100",
                "APNs, UUIDs as ids   \(Self.text(self.bytesPerDevice)) bytes a device, at most \(Self.text(Self.bytesPerDeviceMax))",
                "APNs, short ids      \(Self.text(self.bytesPerDeviceShortIDs))",
                "FCM, UUIDs as ids    \(Self.text(self.bytesPerDeviceFCM))",
                "a subscription       \(Self.text(self.bytesPerSubscription))",
            ]
        }

        private static func number(_ bytes: Double) -> JSONValue { NumberText.json(bytes, 1) }

        private static func text(_ bytes: Double) -> String { Self.number(bytes).text }
    }
}

extension RedisClient {
    /// Returns the bytes of memory that a server has allocated, including its own overhead.
    func usedBytes(_ tag: HashTag) async throws -> Int64 {
        let text = try await self.send(RedisCommand("INFO", "memory"), on: tag).root.string ?? ""
        let key = "used_memory:"
        guard let line = text.split(whereSeparator: \.isNewline).first(where: { $0.hasPrefix(key) }),
            let bytes = Int64(line.dropFirst(key.count))
        else { throw LocalClusterError("INFO memory has no used_memory") }
        return bytes
    }
}
