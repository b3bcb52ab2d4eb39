internal import ApusCore
internal import ApusMessages
internal import ApusSimulator
internal import ApusStreams
internal import ApusTestKit
internal import FoundationEssentials
internal import Glibc

extension Benchmark {
    /// The minimum number of notifications of one run, in whole sends: the system counts processor time in hundredths of a second.
    private static let notificationsMin = 1_000_000
    private static let topic = "news"

    static let fanout = Benchmark(
        "fanout",
        "Processor time of the dispatcher, and of Redis, for a million notifications of a topic fan-out over TLS.",
        figure: "dispatcher_cpu_seconds_per_million",
        bar: 1.6,
    ) { run in
        let limits = try LimitPrograms.named()?.measure(say: run.say) ?? [:]
        var configuration = LocalClusterConfiguration()
        configuration.simulator.isFast = true
        configuration.simulator.keepsLongTokens = false
        return try await LocalCluster.with(configuration) { cluster in
            let devices = run.devices ?? 100_000
            // All devices are Apple's, as in the limit programs.
            _ = try await cluster.register(devices, providers: [.apns], topics: { _ in [Self.topic] })
            let feedback = try await cluster.startFeedback()
            let dispatcher = try await cluster.startDispatcher()
            // The first send opens connections and fills caches.
            try await cluster.send(.topic(Self.topic), id: "warm")
            _ = try await cluster.completion(of: "warm", timeout: .seconds(600))

            let sends = max(1, (Self.notificationsMin + devices - 1) / devices)
            let before = Reading(cluster, dispatcher)
            var accepted: Int64 = 0
            var lost: Int64 = 0
            var residentBytes: Int64 = 0
            for number in 0..<sends {
                let send = "fanout-\(number)"
                try await cluster.send(.topic(Self.topic), id: send)
                let ledger = try await cluster.completion(of: send, timeout: .seconds(600))
                accepted += Int64(ledger.total(.accepted))
                lost += Int64(devices) - Int64(ledger.total(.accepted))
                residentBytes = max(residentBytes, ProcessStatistics.residentBytes(of: dispatcher.processID) ?? 0)
            }
            let used = Reading(cluster, dispatcher).since(before)
            try await dispatcher.terminate()
            try await feedback.terminate()
            let millions = Double(accepted) / 1e6
            var figures = limits
            figures["accepted"] = Double(accepted)
            figures["lost"] = Double(lost)
            figures["accepted_per_second"] = Double(accepted) / used.seconds
            figures["dispatcher_cpu_seconds_per_million"] = used.dispatcher / millions
            figures["redis_cpu_seconds_per_million"] = used.redis / millions
            figures["dispatcher_rss_bytes_max"] = Double(residentBytes)
            if let limit = limits["limit_nghttp2_cpu_seconds_per_million"] {
                figures["dispatcher_over_limit_nghttp2"] = used.dispatcher / millions / limit
            }
            return figures
        }
    }

    /// The processor seconds so far, and the time.
    private struct Reading {
        private let dispatcherSeconds: Double
        private let redisSeconds: Double
        private let time = ContinuousClock.now

        init(_ cluster: LocalCluster, _ service: ServiceProcess) {
            self.dispatcherSeconds = ProcessStatistics.processorSeconds(of: service.processID) ?? 0
            self.redisSeconds = cluster.redis.processID.flatMap { ProcessStatistics.processorSeconds(of: $0) } ?? 0
        }

        func since(_ before: Reading) -> (dispatcher: Double, redis: Double, seconds: Double) {
            (
                self.dispatcherSeconds - before.dispatcherSeconds, self.redisSeconds - before.redisSeconds,
                (self.time - before.time) / .seconds(1)
            )
        }
    }
}

/// Runs bare C clients that send the same requests and do nothing else, as a comparison for a dispatcher in the same
/// run. A folder holds a script `run` that builds them, starts each against a sink of its own, and prints a line with
/// `cpu_per_1M=`.
package struct LimitPrograms {
    /// The environment variable that names the folder.
    static let variable = "APUS_LIMIT_BENCH"
    /// The number of requests of each program.
    private static let requests = 500_000
    /// The beginning of a program's line, and the name of its figure.
    private static let programs = [
        (prefix: "C nghttp2 ", figure: "limit_nghttp2_cpu_seconds_per_million"),
        (prefix: "C hand-framed ", figure: "limit_framed_cpu_seconds_per_million"),
    ]
    private static let key = "cpu_per_1M="

    private let folder: String

    /// Returns the programs that the environment names; nil when it names none.
    static func named() -> LimitPrograms? {
        guard let name = unsafe getenv(Self.variable) else { return nil }
        return LimitPrograms(folder: unsafe String(cString: name))
    }

    /// Runs all programs and returns the best figure of each, which stands for what is possible.
    ///
    /// - Throws: when a program does not run or prints no figure.
    func measure(say: @Sendable (String) -> Void) throws -> [String: Double] {
        say("the programs of \(self.folder)")
        let output = try self.output()
        let figures = Self.figures(output)
        guard figures.count == Self.programs.count else {
            throw LocalClusterError("\(self.folder)/run printed no figure of every program: \(output)")
        }
        return figures
    }

    /// Returns the best figure of each program in the output of `run`.
    package static func figures(_ output: String) -> [String: Double] {
        var figures: [String: Double] = [:]
        for line in output.split(separator: "\n") {
            guard let program = Self.programs.first(where: { line.hasPrefix($0.prefix) }) else { continue }
            let words = line.split(separator: " ")
            guard let word = words.first(where: { $0.hasPrefix(Self.key) }),
                let seconds = Double(word.dropFirst(Self.key.count))
            else { continue }
            figures[program.figure] = min(figures[program.figure] ?? .infinity, seconds)
        }
        return figures
    }

    private func output() throws -> String {
        // The path is quoted for the shell, whatever it contains.
        let program = "'" + "\(self.folder)/run".replacing("'", with: "'\\''") + "'"
        guard let pipe = unsafe popen("\(program) \(Self.requests) 2>&1", "r") else {
            throw LocalClusterError("\(self.folder)/run cannot be started: errno \(errno)")
        }
        var bytes: [UInt8] = []
        while true {
            let byte = unsafe fgetc(pipe)
            guard byte >= 0 else { break }
            bytes.append(UInt8(truncatingIfNeeded: byte))
        }
        let status = unsafe pclose(pipe)
        let output = String(decoding: bytes, as: UTF8.self)
        guard status == 0 else { throw LocalClusterError("\(self.folder)/run failed: \(output)") }
        return output
    }
}
