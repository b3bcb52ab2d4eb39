package import ApusConsole
package import ApusCore

/// `apus-lab loadtest --bench`: runs one benchmark after the other, with progress on standard error.
package struct BenchmarkRunner: Sendable {
    /// The name that means all benchmarks.
    package static let all = "all"

    private let benchmarks: [Benchmark]
    private let runs: Int
    private let devices: Int?
    private let revision: String

    /// Creates the benchmark of that name, or `all`.
    ///
    /// - Parameters:
    ///   - runs: of each; the median counts.
    ///   - devices: of the audience; nil when as many as each is meant for.
    ///   - revision: of the code, for the report.
    /// - Throws: which names there are.
    package init(_ name: String, runs: Int, devices: Int?, revision: String) throws(CommandFailure) {
        if name == Self.all {
            self.benchmarks = Benchmark.all
        } else if let benchmark = Benchmark.named(name) {
            self.benchmarks = [benchmark]
        } else {
            let names = Benchmark.all.map(\.name).joined(separator: ", ")
            throw CommandFailure("there is no benchmark \"\(name)\"; there are: \(names), and all")
        }
        self.runs = runs
        self.devices = devices
        self.revision = revision
    }

    /// The results of a session.
    package struct Findings: Sendable {
        /// The reports, in the order of the benchmarks.
        package var reports: [BenchmarkReport] = []
        /// The errors of benchmarks that broke, by name. The others are measured all the same.
        package var failures: [(name: String, reason: String)] = []
        /// True when it was asked for all.
        package var isOfAll: Bool
        /// The code that was measured.
        package var revision: String

        /// No results yet.
        package init(isOfAll: Bool, revision: String) {
            self.isOfAll = isOfAll
            self.revision = revision
        }

        /// Names of what did not pass.
        package var failed: [String] { self.reports.filter { !$0.passed }.map(\.name) + self.failures.map(\.name) }

        /// As JSON: the report, or all of them below one machine and revision.
        package var json: JSONObject {
            if !self.isOfAll, let report = self.reports.first { return report.json(revision: self.revision) }
            var benchmarks: [JSONValue] = self.reports.map { report in
                var object = report.json(revision: self.revision)
                object["machine"] = nil
                object["revision"] = nil
                return .object(object)
            }
            benchmarks += self.failures.map { failure in
                ["name": .string(failure.name), "passed": false, "problem": .string(failure.reason)]
            }
            return [
                "revision": .string(self.revision), "machine": .object(Machine.current.json),
                "passed": .bool(self.failed.isEmpty), "benchmarks": .array(benchmarks),
            ]
        }

        /// For the screen.
        package var lines: [String] {
            let reports = self.reports.flatMap { report in
                (self.isOfAll ? ["", "== \(report.name)"] : []) + report.lines
            }
            return reports + self.failures.map { "FAILED  \($0.name): \($0.reason)" }
        }
    }

    /// Runs them; cancellation ends it.
    package func run() async throws -> Findings {
        var findings = Findings(isOfAll: self.benchmarks.count > 1, revision: self.revision)
        for benchmark in self.benchmarks {
            Console.message(Console.bold("== \(benchmark.name): \(benchmark.abstract)"))
            do {
                findings.reports.append(
                    try await benchmark.run(self.runs, devices: self.devices) { Console.message("   \($0)") }
                )
            } catch {
                try Task.checkCancellation()
                Console.message("   \(error)")
                findings.failures.append((benchmark.name, "\(error)"))
            }
        }
        return findings
    }
}
