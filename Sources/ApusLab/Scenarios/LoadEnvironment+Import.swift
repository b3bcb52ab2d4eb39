internal import ApusCore
internal import ApusTestKit
internal import NIOCore
internal import NIOPosix
internal import Synchronization

extension LoadEnvironment {
    /// Imports new devices over HTTP in one request, and counts the answers that say that a device was created.
    func importDevices(_ count: Int) async throws -> LoadResult {
        guard let registration = self.registration else { preconditionFailure("a registration service runs") }
        var body: [UInt8] = []
        for index in 0..<count {
            let device = SampleDevice(app: LocalCluster.app, index: index, providers: [.apns])
            let line: JSONObject = [
                "device": .string(device.id), "provider": .string(device.provider.name),
                "token": .string(device.token), "topics": [.string(Self.topic)],
            ]
            JSONWriter.append(line, to: &body)
            body.append(UInt8(ascii: "\n"))
        }
        let order = HTTPClientRequest(
            "POST",
            "/v1/apps/\(LocalCluster.app)/devices:import",
            headers: [("content-type", "application/x-ndjson"), ("authorization", "Bearer \(registration.key)")],
            body: body,
        )
        let group = MultiThreadedEventLoopGroup.singleton
        let connection = try await HTTPConnection.connect(host: "127.0.0.1", port: registration.port, on: group)
        let answers = Mutex<[UInt8]>([])
        let before = self.processorSeconds
        let start = self.cluster.clock.nanosecondsSince1970()
        let answer = try await connection.send(order) { part in
            answers.withLock { $0 += part.readableBytesView }
        }
        let seconds = Double(self.cluster.clock.nanosecondsSince1970() - start) / 1e9
        let after = self.processorSeconds
        await connection.close()
        guard answer.status == 200 else {
            throw LocalClusterError("the import was answered with \(answer.status)")
        }

        var result = LoadResult(ScenarioOptions(.register))
        result.planned = count
        let created = Array("\"status\":201,".utf8)
        result.accepted = answers.withLock { bytes in
            bytes.split(separator: UInt8(ascii: "\n")).count { $0.contains(created) }
        }
        result.lost = count - result.accepted
        result.measured = result.accepted
        result.ratePerSecond = Double(result.accepted) / seconds
        result.usage.seconds = after.merging(before) { $0 - $1 }
        return result
    }

    /// The processor seconds of services and Redis so far, by name.
    private var processorSeconds: [String: Double] {
        self.processes.compactMapValues { ProcessStatistics.processorSeconds(of: $0) }
    }
}
