internal import ApusCore
internal import ApusInstallation
internal import ApusMessages
internal import ApusStore
internal import NIOPosix

extension LoadEnvironment {
    /// The number of kept-alive connections, to which requests are assigned in turn; slow ones queue them.
    private static let connections = 32

    private struct Registration: Sendable {
        let index: Int
        let due: Int64
        let begun: Int64
        let answered: Int64
        /// The status of the answer; 0 for none.
        let status: Int
        let problem: String?
    }

    /// Registers new devices at the planned rate, and compares with the store.
    func register(
        _ order: ScenarioOptions,
        number: Int,
        _ registration: (port: Int, key: String),
        _ result: inout LoadResult,
    ) async throws -> LoadSpan {
        let plan = order.plan
        // Each run has devices of its own.
        let first = number * 100_000_000
        let before = try await self.cluster.redisBytes()
        let start = self.cluster.clock.nanosecondsSince1970()
        let answers = try await self.withConnections(to: registration.port) { connections in
            try await OpenLoop(plan, clock: self.cluster.clock).run(from: start) { index, due in
                await self.register(
                    Self.device(first + index),
                    index: index,
                    due: due,
                    over: connections[index % connections.count],
                    key: registration.key,
                )
            }
        }
        let done = self.cluster.clock.nanosecondsSince1970()
        let bytes = try await self.cluster.redisBytes() - before
        result.redisBytesPerDevice = Double(bytes) / Double(plan.count)
        result.planned = plan.count
        var last = start
        var measured: ClosedRange<Int64>?
        for answer in answers {
            result.lateness.record(nanoseconds: answer.begun - answer.due)
            // 201 created the device, 200 found it: it had been registered before.
            if answer.status == 200 { result.repeated += 1 }
            guard answer.status == 200 || answer.status == 201, plan.isMeasured(answer.index) else { continue }
            result.latency.record(nanoseconds: answer.answered - answer.due)
            last = max(last, answer.answered)
            measured = min(measured?.lowerBound ?? last, answer.answered)...last
        }
        if let problem = answers.lazy.compactMap(\.problem).first {
            result.complaints.append("\(answers.count { $0.problem != nil }) were not registered (\(problem))")
        }
        try await self.compareStore(plan, first: first, &result)
        result.measured = result.latency.count
        let seconds = Double(plan.measured) / plan.ratePerSecond
        result.ratePerSecond = LoadValidation.rate(result.measured, planned: seconds, span: measured)
        let begin = start + plan.due(plan.warmUp)
        return LoadSpan(begin: begin, end: max(start + plan.due(plan.count), last), done: done)
    }

    private static func device(_ index: Int) -> SampleDevice {
        SampleDevice(app: LocalCluster.app, index: index, providers: [.apns])
    }

    private func register(
        _ device: SampleDevice,
        index: Int,
        due: Int64,
        over connection: HTTPConnection,
        key: String,
    ) async -> Registration {
        let body: JSONObject = [
            "provider": .string(device.provider.name), "token": .string(device.token), "topics": [.string(Self.topic)],
        ]
        let order = HTTPClientRequest(
            "PUT",
            "/v1/apps/\(LocalCluster.app)/devices/\(device.id)",
            headers: [("content-type", "application/json"), ("authorization", "Bearer \(key)")],
            body: JSONValue.object(body).bytes,
        )
        let begun = self.cluster.clock.nanosecondsSince1970()
        var status = 0
        var problem: String?
        do {
            let answer = try await connection.send(order)
            status = answer.status
            if status != 200, status != 201 { problem = "\(status): \(String(decoding: answer.body, as: UTF8.self))" }
        } catch {
            problem = "\(error)"
        }
        return Registration(
            index: index,
            due: due,
            begun: begun,
            answered: self.cluster.clock.nanosecondsSince1970(),
            status: status,
            problem: problem,
        )
    }

    private func withConnections<Result>(
        to port: Int,
        _ body: ([HTTPConnection]) async throws -> Result,
    ) async throws -> Result {
        var connections: [HTTPConnection] = []
        do {
            for _ in 0..<Self.connections {
                let group = MultiThreadedEventLoopGroup.singleton
                connections.append(try await HTTPConnection.connect(host: "127.0.0.1", port: port, on: group))
            }
            let result = try await body(connections)
            for connection in connections { await connection.close() }
            return result
        } catch {
            for connection in connections { await connection.close() }
            throw error
        }
    }

    /// Checks that every device is in the store with its token, and that the store is consistent.
    private func compareStore(_ plan: LoadPlan, first: Int, _ result: inout LoadResult) async throws {
        let store = self.cluster.installation.store
        let check = try await StoreCheck.run(store, try AppID(LocalCluster.app), keepsDevices: true)
        for index in 0..<plan.count {
            let device = Self.device(first + index)
            guard let stored = check.devices[device.id], Hexadecimal.encode(stored.record.token) == device.token else {
                result.lost += 1
                continue
            }
            result.accepted += 1
        }
        if let problem = check.problems.first {
            result.complaints.append("the store contradicts itself in \(check.problems.count) places: \(problem)")
        }
    }
}
