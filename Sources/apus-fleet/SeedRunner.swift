import ApusSimulation
import Foundation
import Synchronization

/// Runs simulations, each in a process of its own, and makes the first smaller that fails.
struct SeedRunner: Sendable {
    /// The environment variable without which dictionaries have another order in each process.
    private static let hashing = "SWIFT_DETERMINISTIC_HASHING"
    /// The real seconds after which a simulation that has not ended is ended, which is a failure.
    private static let secondsMax = 600
    /// The number of seeds between two lines about the progress.
    private static let seedsPerLine = 100

    let mutation: String?
    let jobs: Int

    /// The result of a process.
    private struct Answer: Sendable {
        let hasFailed: Bool
        let output: String
    }

    /// Replaces this process by one in which dictionaries have the same order each time.
    static func startAnewWithoutRandomHashing() throws {
        guard getenv(Self.hashing) == nil else { return }
        setenv(Self.hashing, "1", 1)
        var arguments = CommandLine.arguments.map { strdup($0) }
        arguments.append(nil)
        execv("/proc/self/exe", &arguments)
        throw CocoaError(.executableLoad)
    }

    private struct Progress {
        var next = 0
        var done = 0
        var failed: (index: Int, answer: Answer)?
    }

    /// Runs simulations until the first fails.
    ///
    /// - Returns: true when none has failed.
    func run(_ plans: [SimulationPlan]) -> Bool {
        let start = ContinuousClock.now
        let progress = Mutex(Progress())
        // Threads, not tasks: a simulation takes the place of whatever runs tasks.
        DispatchQueue.concurrentPerform(iterations: self.jobs) { _ in
            while true {
                let next = progress.withLock { progress -> Int? in
                    guard progress.failed == nil, progress.next < plans.count else { return nil }
                    defer { progress.next += 1 }
                    return progress.next
                }
                guard let index = next else { return }
                let answer = self.answer(to: plans[index])
                progress.withLock { progress in
                    guard !answer.hasFailed else {
                        if index < progress.failed?.index ?? .max { progress.failed = (index, answer) }
                        return
                    }
                    progress.done += 1
                    guard progress.done % Self.seedsPerLine == 0 else { return }
                    let rate = Double(progress.done) / ((ContinuousClock.now - start) / .seconds(60))
                    Self.say(String(format: "%ld seeds, none failed, %.0f a minute", progress.done, rate))
                }
            }
        }
        let end = progress.withLock { (done: $0.done, failed: $0.failed) }
        guard let (index, answer) = end.failed else {
            Self.say("\(end.done) seeds, none failed")
            return true
        }
        Self.say("\(end.done) seeds did not fail, this one did:\n\(answer.output)")
        self.shrink(plans[index])
        return false
    }

    private static func say(_ text: String) {
        print(text)
        // A line that waits in a buffer is lost with an interrupted run.
        fflush(nil)
    }

    private func shrink(_ plan: SimulationPlan) {
        Self.say("making it smaller")
        var plan = plan
        var output = ""
        search: while true {
            for smaller in plan.smaller {
                let answer = self.answer(to: smaller)
                guard answer.hasFailed else { continue }
                (plan, output) = (smaller, answer.output)
                continue search
            }
            break
        }
        Self.say(output)
        Self.say("again: apus-fleet \(plan.command)\(self.mutation.map { " --mutation \($0)" } ?? "")")
    }

    private func answer(to plan: SimulationPlan) -> Answer {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/timeout")
        let program = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? "apus-fleet"
        let mutation = self.mutation.map { ["--mutation", $0] } ?? []
        let words = plan.command.split(separator: " ").map(String.init)
        process.arguments = ["\(Self.secondsMax)", program] + words + mutation
        process.environment = ProcessInfo.processInfo.environment.merging([Self.hashing: "1"]) { $1 }
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        do {
            try process.run()
        } catch {
            return Answer(hasFailed: true, output: "\(error)")
        }
        let output = (try? pipe.fileHandleForReading.readToEnd()) ?? Data()
        process.waitUntilExit()
        let isLate = process.terminationStatus == 124
        let text = String(decoding: output, as: UTF8.self) + (isLate ? "  no end after \(Self.secondsMax) s" : "")
        return Answer(hasFailed: process.terminationStatus != 0, output: text)
    }
}
