import ApusSimulation
import Foundation

/// Runs seeds, each in a process of its own, and makes those smaller that fail.
struct SeedRunner: Sendable {
    /// The environment variable without which dictionaries have another order in each process.
    private static let hashing = "SWIFT_DETERMINISTIC_HASHING"
    /// The real seconds after which a simulation that has not ended is ended, which is a failure.
    private static let secondsMax = 600
    /// The number of seeds between two lines about the progress.
    private static let seedsPerLine: UInt64 = 100

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

    /// Runs seeds until the first fails.
    ///
    /// - Returns: true when none has failed.
    func run(_ seeds: Range<UInt64>) async -> Bool {
        let start = ContinuousClock.now
        var next = seeds.lowerBound
        var done: UInt64 = 0
        let failed = await withTaskGroup(of: (seed: UInt64, answer: Answer).self) { group -> (UInt64, Answer)? in
            func add() {
                guard next < seeds.upperBound else { return }
                let seed = next
                next += 1
                group.addTask { (seed, await self.answer(to: ["--seed", "\(seed)"])) }
            }
            for _ in 0..<self.jobs { add() }
            for await (seed, answer) in group {
                guard !answer.hasFailed else { return (seed, answer) }
                done += 1
                if done % Self.seedsPerLine == 0 {
                    let seconds = (ContinuousClock.now - start) / .seconds(1)
                    print(String(format: "%llu seeds, none failed, %.0f a minute", done, Double(done) / seconds * 60))
                    fflush(nil)
                }
                add()
            }
            return nil
        }
        guard let (seed, answer) = failed else {
            print("\(done) seeds, none failed")
            return true
        }
        print("after \(done) seeds that did not:\n\(answer.output)")
        await self.shrink(TrialPlan(seed: seed))
        return false
    }

    private func shrink(_ plan: TrialPlan) async {
        print("making it smaller")
        var plan = plan
        var output = ""
        search: while true {
            for smaller in plan.smaller {
                let answer = await self.answer(to: smaller.command.split(separator: " ").map(String.init))
                guard answer.hasFailed else { continue }
                (plan, output) = (smaller, answer.output)
                continue search
            }
            break
        }
        print(output)
        print("again: apus-fleet \(plan.command)\(self.mutation.map { " --mutation \($0)" } ?? "")")
    }

    private func answer(to arguments: [String]) async -> Answer {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/timeout")
        let program = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? "apus-fleet"
        let mutation = self.mutation.map { ["--mutation", $0] } ?? []
        process.arguments = ["\(Self.secondsMax)", program] + arguments + mutation
        process.environment = ProcessInfo.processInfo.environment.merging([Self.hashing: "1"]) { $1 }
        let pipe = Pipe()
        process.standardOutput = pipe
        process.standardError = pipe
        return await withCheckedContinuation { continuation in
            DispatchQueue.global().async {
                do {
                    try process.run()
                } catch {
                    return continuation.resume(returning: Answer(hasFailed: true, output: "\(error)"))
                }
                let output = (try? pipe.fileHandleForReading.readToEnd()) ?? Data()
                process.waitUntilExit()
                let text = String(decoding: output, as: UTF8.self)
                let isLate = process.terminationStatus == 124
                continuation.resume(
                    returning: Answer(
                        hasFailed: process.terminationStatus != 0,
                        output: isLate ? text + "  no end after \(Self.secondsMax) s" : text
                    )
                )
            }
        }
    }
}
