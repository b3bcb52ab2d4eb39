package import ApusCore
package import ApusTerminal

/// Runs one benchmark after the other for `apus-lab loadtest --bench`, with progress on standard error.
package struct BenchmarkRunner: Sendable {
    /// The name that means all benchmarks.
    package static let all = "all"

    private let benchmarks: [Benchmark]
    private let runs: Int
    private let devices: Int?
    private let revision: String

    /// Creates a runner of the benchmark with the given name, or of `all`.
    ///
    /// - Parameters:
    ///   - runs: the number of runs of each; the median counts.
    ///   - devices: the devices of the audience; nil for the default of each.
    ///   - revision: the revision of the code, for the report.
    /// - Throws: `CommandFailure` with the known names.
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
        /// The errors of failed benchmarks, by name. The others are measured all the same.
        package var failures: [(name: String, reason: String)] = []
        /// True when all benchmarks were requested.
        package var isOfAll: Bool
        /// The revision of the measured code.
        package var revision: String

        /// Creates empty results.
        package init(isOfAll: Bool, revision: String) {
            self.isOfAll = isOfAll
            self.revision = revision
        }

        /// The names of the benchmarks that did not pass.
        package var failed: [String] { self.reports.filter { !$0.passed }.map(\.name) + self.failures.map(\.name) }

        /// The results as JSON: the report, or all of them below one machine and revision.
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

        /// The results as lines.
        package var lines: [String] {
            let reports = self.reports.flatMap { report in
                (self.isOfAll ? ["", "== \(report.name)"] : []) + report.lines
            }
            return reports + self.failures.map { "FAILED  \($0.name): \($0.reason)" }
        }
    }

    /// Runs the benchmarks; cancellation ends it.
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
