package import ApusCore
internal import ApusMessages
package import ApusPublisher
package import ApusTerminal
internal import Synchronization

/// Runs `apus-lab loadtest` against an installation: publishes single sends at a constant rate to devices of a
/// simulator, and measures their latencies.
package struct LoadTestRunner: Sendable {
    /// The settings of a load test.
    package struct Options: Hashable, Sendable {
        /// The app at the simulator, with a route to APNs.
        package var app = "demo"
        /// The number of sends per second.
        package var ratePerSecond = 1_000.0
        /// The measured seconds.
        package var seconds = 10.0
        /// The unmeasured seconds before.
        package var warmUpSeconds = 2.0
        /// The seconds to wait for the last receipts.
        package var patienceSeconds = 10.0
        /// The seed of tokens.
        package var seed: UInt64 = 1
        /// The lane.
        package var lane = Lane.express

        /// Creates the default options.
        package init() {}
    }

    private let options: Options
    private let publisher: Publisher
    private let simulator: SimulatorControl?
    private let clock = SystemClock()

    /// Creates a run.
    ///
    /// - Parameter simulator: the simulator to query for acceptances; nil to use only receipts.
    package init(_ options: Options, publisher: Publisher, simulator: SimulatorControl?) {
        self.options = options
        self.publisher = publisher
        self.simulator = simulator
    }

    /// Runs the test.
    package func run(_ display: ProgressDisplay) async throws -> LoadTestReport {
        let plan = LoadPlan(
            ratePerSecond: self.options.ratePerSecond,
            warmUp: Int(self.options.ratePerSecond * self.options.warmUpSeconds),
            measured: max(1, Int(self.options.ratePerSecond * self.options.seconds)),
        )
        let start = self.clock.nanosecondsSince1970()
        // Sends of earlier runs have other ids: an id is reserved for a day.
        let name = "loadtest-\(String(start, radix: 36))"
        let collector = ReceiptCollector(self.publisher, name: name, clock: self.clock)
        let test = OpenLoopPublisher(plan, publisher: self.publisher, lane: self.options.lane, clock: self.clock) {
            index in
            self.command(index, name: name, replyTo: collector.stream)
        }
        let deadline = Mutex<Int64>(.max)
        async let receipts = collector.collect(plan.count) {
            self.clock.nanosecondsSince1970() > deadline.withLock { $0 }
        }
        var display = display
        let publications = try await test.run { started in
            let time = Double(self.clock.nanosecondsSince1970() - start) / 1e9
            display.show("\(NumberText.grouped(started))/\(NumberText.grouped(plan.count))", at: time)
        }
        display.finish("\(NumberText.grouped(plan.count))/\(NumberText.grouped(plan.count))")
        let end = self.clock.nanosecondsSince1970() + Int64(self.options.patienceSeconds * 1e9)
        deadline.withLock { $0 = end }
        let arrivals = try await receipts
        let accepted = try await self.acceptances(of: name, since: start)
        return LoadTestReport(
            plan,
            publications,
            receipts: arrivals,
            accepted: accepted?.first,
            repeated: accepted?.repeated,
        )
    }

    private func command(_ index: Int, name: String, replyTo: String) -> SendCommand {
        var generator = SeededGenerator(seed: self.options.seed &+ UInt64(index) &* 0x9e37_79b9_7f4a_7c15)
        var notification = Notification()
        notification.title = "Load test"
        notification.body = "Send \(index)"
        let address = Address(provider: .apns, token: SampleToken.apple(&generator))
        var command = SendCommand(app: self.options.app, target: .addresses([address]), notification: notification)
        command.id = "\(name)-\(index)"
        command.replyTo = replyTo
        return command
    }

    /// Returns the time at which each send was first accepted, and the number of further acceptances; nil without a simulator.
    private func acceptances(
        of name: String,
        since start: Int64,
    ) async throws -> (first: [String: Int64], repeated: Int)? {
        guard let simulator else { return nil }
        let found = Mutex<(first: [String: Int64], repeated: Int)>(([:], 0))
        try await simulator.readLedger(since: start) { line in
            guard let send = line.send, send.hasPrefix(name), line.isAccepted else { return }
            found.withLock { found in
                let time = found.first.updateValue(line.timeNanoseconds, forKey: send)
                guard let time else { return }
                found.first[send] = min(time, line.timeNanoseconds)
                found.repeated += 1
            }
        }
        return found.withLock { $0 }
    }
}
