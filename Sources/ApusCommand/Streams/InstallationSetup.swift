package import ApusCore
internal import ApusInstallation
package import ApusRedis

/// `apus init`: lays Apus out in Redis and looks whether Redis is set up for it.
package struct InstallationSetup: Sendable {
    /// What was done and found.
    package struct Report: Hashable, Sendable {
        /// Q.
        package var queueShards: Int
        /// T.
        package var devicePartitions: Int
        /// Of the functions.
        package var version: String
        /// What an operator should change.
        package var warnings: [String]

        /// As JSON.
        package var json: JSONObject {
            [
                "queue_shards": .integer(self.queueShards), "device_partitions": .integer(self.devicePartitions),
                "functions": .string("apus1 \(self.version)"), "warnings": .array(self.warnings.map { .string($0) }),
            ]
        }
    }

    /// Fields of a device's hashes are at most that long where memory matters: a record with an FCM token.
    private static let listpackBytes: Int64 = 512

    private let client: RedisClient

    /// A set-up of that Redis.
    package init(_ client: RedisClient) { self.client = client }

    /// Lays out, loads the functions, and looks at the settings.
    ///
    /// - Throws: `layoutMismatch` when the installation has other sizes.
    package func perform(queueShards: Int, devicePartitions: Int) async throws -> Report {
        let keyspace = Keyspace(queueShards: queueShards, devicePartitions: devicePartitions)
        try await Installation.initialize(self.client, keyspace: keyspace)
        return Report(
            queueShards: queueShards,
            devicePartitions: devicePartitions,
            version: try Installation.library().version.description,
            warnings: try await self.checkSettings(),
        )
    }

    private func checkSettings() async throws -> [String] {
        var warnings: [String] = []
        for endpoint in self.client.topology.endpoints {
            if let policy = await self.setting("maxmemory-policy", of: endpoint) {
                if policy != "noeviction" {
                    warnings.append(
                        "\(endpoint): maxmemory-policy is \(policy): a full Redis would throw away devices and sends. "
                            + "Set it to noeviction"
                    )
                }
            } else {
                warnings.append("\(endpoint): CONFIG is not allowed: make sure that maxmemory-policy is noeviction")
            }
            if let bytes = await self.setting("hash-max-listpack-value", of: endpoint).flatMap(Int64.init),
                bytes < Self.listpackBytes
            {
                let command = RedisCommand("CONFIG", "SET", "hash-max-listpack-value", .integer(Self.listpackBytes))
                do {
                    _ = try await self.client.send(command, to: endpoint)
                } catch {
                    warnings.append(
                        "\(endpoint): hash-max-listpack-value is \(bytes): devices take several times the memory. "
                            + "Set it to \(Self.listpackBytes)"
                    )
                }
            }
            if await self.setting("appendonly", of: endpoint) == "no" {
                warnings.append("\(endpoint): appendonly is no: what is accepted is lost when Redis restarts")
            }
        }
        return warnings
    }

    private func setting(_ name: String, of endpoint: RedisEndpoint) async -> String? {
        let reply = try? await self.client.send(RedisCommand("CONFIG", "GET", .text(name)), to: endpoint)
        return reply?.root.element(1)?.string
    }
}
