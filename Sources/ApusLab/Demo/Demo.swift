internal import ApusPublisher
internal import ApusTerminal
internal import ApusTestKit
internal import NIOPosix

/// Runs all of Apus on one machine: devices register, sends are published, dead tokens are pruned, and a report compares the counts.
package struct Demo: Sendable {
    private let options: DemoOptions

    /// Creates a demo.
    package init(_ options: DemoOptions) { self.options = options }

    /// Runs the demo, passes the report on, and with `isKept` waits until it is cancelled. Nothing is left afterwards.
    package func run(_ report: @Sendable (DemoReport) throws -> Void) async throws {
        Self.step("Starting Redis, simulated providers, and the three services")
        let environment = try await DemoEnvironment.start(self.options)
        do {
            try report(try await self.perform(on: environment))
            if self.options.isKept { try await self.keep(environment) }
        } catch {
            await environment.stop()
            throw error
        }
        await environment.stop()
    }

    private func perform(on environment: DemoEnvironment) async throws -> DemoReport {
        let publisher = try await Publisher(
            redis: environment.cluster.redisURL,
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
        )
        do {
            var runner = try DemoRunner(environment, publisher, self.options)
            let report = try await runner.run()
            await publisher.close()
            return report
        } catch {
            await publisher.close()
            throw error
        }
    }

    private func keep(_ environment: DemoEnvironment) async throws {
        Console.message("")
        Console.message("Everything keeps running. Try:")
        for service in LocalCluster.services {
            guard let port = environment.services[service.name]?.adminPort else { continue }
            let name = service.name + String(repeating: " ", count: 14 - service.name.count)
            Console.message("  \(name)http://127.0.0.1:\(port)/metrics   /healthz   /readyz")
        }
        Console.message(
            "  devices       http://127.0.0.1:\(environment.registrationPort)/v1/apps/demo/devices/phone-0000000"
        )
        Console.message("                with the header  authorization: Bearer \(environment.key)")
        Console.message("  simulator     http://127.0.0.1:\(environment.controlPort)/summary   /sends   /ledger")
        for line in Self.commandLines(environment.cluster.programs, redis: environment.cluster.redisURL) {
            Console.message(line)
        }
        Console.message("Ctrl-C stops it.")
        while true {
            try environment.checkIsRunning()
            try await Task.sleep(for: .milliseconds(500))
        }
    }

    /// Returns the lines that say how the command `apus` is called in another terminal.
    package static func commandLines(_ programs: ServicePrograms, redis: String) -> [String] {
        [
            "  the command   \(programs.exportOfPath)",
            "                export \(RedisAccess.variable)=\(redis)",
            "                apus lag; apus send --app demo --topic sport --title Goal --wait",
        ]
    }

    static func step(_ text: String) { Console.message(Console.bold("== \(text)")) }
}
