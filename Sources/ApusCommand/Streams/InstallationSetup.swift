package import ApusCore
internal import ApusInstallation
package import ApusRedis
internal import ApusStreams

/// Runs `apus init`: initialises an installation in Redis and checks the server's configuration.
package struct InstallationSetup: Sendable {
    /// The result of the set-up.
    package struct Report: Hashable, Sendable {
        /// The number of queue shards, Q.
        package var queueShards: Int
        /// The number of device partitions, T.
        package var devicePartitions: Int
        /// The version of the functions.
        package var version: String
        /// The settings that an operator should change.
        package var warnings: [String]

        /// The result as JSON.
        package var json: JSONObject {
            [
                "queue_shards": .integer(self.queueShards), "device_partitions": .integer(self.devicePartitions),
                "functions": .string("apus2 \(self.version)"), "warnings": .array(self.warnings.map { .string($0) }),
            ]
        }
    }

    /// The checks that must pass before data is stored.
    private static let checks: Set<Diagnosis.Check> = [.version, .eviction, .persistence, .replication, .listpack]
    private static let listpack: RedisArgument = "hash-max-listpack-value"

    private let client: RedisClient

    /// Creates the set-up of a Redis.
    package init(_ client: RedisClient) { self.client = client }

    /// Initialises the installation, loads the functions, and checks the settings. What a master of a cluster has lost of an installation,
    /// its sizes and the numbers of its routes, is written again from the copies.
    ///
    /// - Parameters:
    ///   - queueShards: the number of queue shards; nil for those of the installation, or the default of a new one.
    ///   - devicePartitions: the number of device partitions, in the same way.
    /// - Throws: `layoutMismatch` when the installation has other sizes, or when its copies are needed and contradict each other.
    package func perform(queueShards: Int? = nil, devicePartitions: Int? = nil) async throws -> Report {
        let present = try await Installation.sizes(self.client)
        let isCluster = self.client.configuration.deployment == .cluster
        let keyspace = Keyspace(
            queueShards: queueShards ?? present?.queueShards
                ?? (isCluster ? Keyspace.queueShardsOfCluster : Keyspace.queueShardsDefault),
            devicePartitions: devicePartitions ?? present?.devicePartitions ?? Keyspace.devicePartitionsDefault,
        )
        try await Installation.initialize(self.client, keyspace: keyspace)
        return Report(
            queueShards: keyspace.queueShards,
            devicePartitions: keyspace.devicePartitions,
            version: try Installation.library().version.description,
            warnings: try await self.restoreNumbers(keyspace) + (try await self.checkSettings()),
        )
    }

    /// Writes the numbers of routes back that Redis has lost.
    ///
    /// - Returns: the work that is left for the operator.
    private func restoreNumbers(_ keyspace: Keyspace) async throws -> [String] {
        let routes = SendStreams(client: self.client, keyspace: keyspace).routes
        do {
            let left = try await InstallationCopies(self.client).restoreNumbers(in: routes)
            return left.map {
                "the number of the route \($0) was lost, and others were given meanwhile: start the dispatchers anew"
            }
        } catch let error as RedisError where error.code == .layoutMismatch {
            return [error.message]
        }
    }

    /// Sets how large values may be in compact hashes, also in the server's file, so that it lasts.
    ///
    /// - Returns: the work that is left for the operator; nil when there is none, or when the diagnosis names it.
    private func setListpack(at endpoint: RedisEndpoint) async -> String? {
        let bytes = Diagnosis.listpackBytesMin
        let command = RedisCommand("CONFIG", "SET", Self.listpack, .integer(bytes))
        guard (try? await self.client.send(command, to: endpoint)) != nil else { return nil }
        do throws(RedisError) {
            _ = try await self.client.send(RedisCommand("CONFIG", "REWRITE"), to: endpoint)
            return nil
        } catch {
            let reason = "since CONFIG REWRITE failed (\(error.message))"
            return "hash-max-listpack-value is \(bytes) only until Redis restarts, \(reason). "
                + "Put this line into redis.conf: hash-max-listpack-value \(bytes)"
        }
    }

    private func checkSettings() async throws -> [String] {
        var warnings: [String] = []
        // An address of one server means that one; a cluster and Sentinels tell of replicas as well.
        let mayFollow = self.client.configuration.deployment != .server
        for endpoint in try await self.client.servers() {
            // Where CONFIG is refused, the diagnosis names the remaining work.
            let bytes = try? await self.client.send(RedisCommand("CONFIG", "GET", Self.listpack), to: endpoint)
            if let now = bytes?.root.element(1)?.string.flatMap({ Int64($0) }), now < Diagnosis.listpackBytesMin {
                warnings += await self.setListpack(at: endpoint).map { ["\(endpoint): \($0)"] } ?? []
            }
            do throws(RedisError) {
                let facts = try await RedisServerFacts(of: endpoint, self.client)
                warnings += Diagnosis.redis(facts, at: "\(endpoint)", mayFollow: mayFollow)
                    .filter { Self.checks.contains($0.check) && $0.verdict != .ok }
                    .map { "\(endpoint): \($0.sentence)" }
            } catch {
                warnings.append("\(endpoint): its settings are unknown (\(error.message)): see apus doctor")
            }
        }
        warnings += SkippedServers.warning(self.client.topology.failedServers, again: "apus init").map { [$0] } ?? []
        return warnings
    }
}

/// Names the servers that a command has left out.
package enum SkippedServers {
    /// Returns the warning about servers that the cluster has marked as failed; nil when there are none.
    ///
    /// - Parameter command: the command to run once they are back.
    package static func warning(_ servers: [RedisEndpoint], again command: String) -> String? {
        guard !servers.isEmpty else { return nil }
        let count = servers.count == 1 ? "1 server is" : "\(servers.count) servers are"
        let names = servers.map { "\($0)" }.joined(separator: ", ")
        return "\(count) marked as failed and skipped: \(names). Run `\(command)` again when they are back or forgotten"
    }
}
