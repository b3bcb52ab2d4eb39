internal import ApusLoadTest
internal import ApusPublisher
internal import ApusTestKit
internal import NIOPosix

/// The whole of Apus on one machine: devices register, sends go out, dead tokens are pruned, and a report adds it up.
package struct Demo: Sendable {
    private let options: DemoOptions

    /// A demo.
    package init(_ options: DemoOptions) { self.options = options }

    /// Runs it, hands out the report, and with `isKept` waits until it is cancelled. Nothing is left afterwards.
    package func run(_ report: @Sendable (DemoReport) throws -> Void) async throws {
        Self.step("Starting Redis, a simulated Apple and Google, and the three services")
        let stage = try await DemoStage.start(self.options)
        do {
            try report(try await self.perform(on: stage))
            if self.options.isKept { try await self.keep(stage) }
        } catch {
            await stage.stop()
            throw error
        }
        await stage.stop()
    }

    private func perform(on stage: DemoStage) async throws -> DemoReport {
        let publisher = try await Publisher(
            redis: stage.laboratory.redis.url,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
        )
        do {
            var performance = try DemoPerformance(stage, publisher, self.options)
            let report = try await performance.run()
            await publisher.close()
            return report
        } catch {
            await publisher.close()
            throw error
        }
    }

    private func keep(_ stage: DemoStage) async throws {
        Console.talk("")
        Console.talk("All of it goes on running. To look at:")
        for service in Laboratory.services {
            guard let port = stage.services[service.name]?.adminPort else { continue }
            let name = service.name + String(repeating: " ", count: 14 - service.name.count)
            Console.talk("  \(name)http://127.0.0.1:\(port)/metrics   /healthz   /readyz")
        }
        Console.talk("  devices       http://127.0.0.1:\(stage.registrationPort)/v1/apps/demo/devices/phone-0000000")
        Console.talk("                with the header  authorization: Bearer \(stage.key)")
        Console.talk("  simulator     http://127.0.0.1:\(stage.controlPort)/summary   /sends   /ledger")
        Console.talk("  the command   export \(RedisAccess.variable)=\(stage.laboratory.redis.url)")
        Console.talk("                apus lag; apus send --app demo --topic sport --title Goal --wait")
        Console.talk("Ctrl-C ends it.")
        while true {
            try stage.checkIsRunning()
            try await Task.sleep(for: .milliseconds(500))
        }
    }

    static func step(_ text: String) { Console.talk(Console.bold("== \(text)")) }
}
