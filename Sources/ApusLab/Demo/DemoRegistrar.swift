internal import ApusTerminal
internal import NIOCore
internal import NIOPosix
internal import Synchronization

/// Registers a population over the real HTTP API.
struct DemoRegistrar: Sendable {
    private static let connections = 32

    let environment: DemoEnvironment
    let population: DemoPopulation

    /// Registers all devices and returns the seconds that it took.
    func run(_ display: ProgressDisplay) async throws -> Double {
        let clock = ContinuousClock()
        let start = clock.now
        let tally = Tally()
        var display = display
        try await withThrowingTaskGroup(of: Bool.self) { group in
            for _ in 0..<min(Self.connections, self.population.devices.count) {
                group.addTask {
                    try await self.register(tally)
                    return true
                }
            }
            group.addTask {
                try await Task.sleep(for: .milliseconds(100))
                return false
            }
            var running = min(Self.connections, self.population.devices.count)
            var window = RateWindow()
            while running > 0, let isWorker = try await group.next() {
                if isWorker {
                    running -= 1
                    continue
                }
                let (count, time) = (tally.done.withLock { $0 }, (clock.now - start) / .seconds(1))
                window.note(UInt64(count), at: time)
                display.show(self.line(count, rate: window.rate), at: time)
                group.addTask {
                    try await Task.sleep(for: .milliseconds(100))
                    return false
                }
            }
            group.cancelAll()
        }
        let seconds = (clock.now - start) / .seconds(1)
        display.finish(self.line(self.population.devices.count, rate: Double(self.population.devices.count) / seconds))
        return seconds
    }

    private func line(_ count: Int, rate: Double?) -> String {
        let total = NumberText.grouped(self.population.devices.count)
        return "\(NumberText.grouped(count))/\(total)" + (rate.map { "  \(NumberText.rate($0))/s" } ?? "")
    }

    private func register(_ tally: Tally) async throws {
        let connection = try await HTTPConnection.connect(
            host: "127.0.0.1",
            port: self.environment.registrationPort,
            on: MultiThreadedEventLoopGroup.singleton,
        )
        do {
            while let index = tally.take(below: self.population.devices.count) {
                let device = self.population.devices[index]
                let order = HTTPClientRequest(
                    "PUT",
                    "/v1/apps/\(LocalCluster.app)/devices/\(device.id)",
                    headers: [
                        ("content-type", "application/json"), ("authorization", "Bearer \(self.environment.key)"),
                    ],
                    body: device.registration,
                )
                let answer = try await connection.send(order)
                guard answer.status == 200 || answer.status == 201 else {
                    let text = String(decoding: answer.body, as: UTF8.self)
                    throw CommandFailure("registration answered \(answer.status) to \(order.path): \(text)")
                }
                tally.done.withLock { $0 += 1 }
            }
            await connection.close()
        } catch {
            await connection.close()
            throw error
        }
    }

    /// The counters that the connections share.
    private final class Tally: Sendable {
        let next = Mutex(0)
        let done = Mutex(0)

        /// The position of the next device; nil when all are taken.
        func take(below count: Int) -> Int? {
            self.next.withLock { next in
                guard next < count else { return nil }
                defer { next += 1 }
                return next
            }
        }
    }
}
