package import ApusCore
internal import ApusTerminal

/// Measures one promised figure in a cluster of real processes.
package struct Benchmark: Sendable {
    /// The name for `--bench`.
    package let name: String
    /// A sentence about the measured figure.
    package let abstract: String
    /// The figure that decides whether the benchmark passes.
    let figure: String
    /// The maximum of the figure; the minimum with `isMinimum`.
    let bar: Double
    /// True when the figure must not be below the bar, instead of above.
    let isMinimum: Bool
    /// True when the worst run decides instead of the median, for figures that must always be kept.
    let usesWorstRun: Bool
    private let perform: @Sendable (BenchmarkRun) async throws -> [String: Double]

    init(
        _ name: String,
        _ abstract: String,
        figure: String,
        bar: Double,
        isMinimum: Bool = false,
        usesWorstRun: Bool = false,
        _ perform: @escaping @Sendable (BenchmarkRun) async throws -> [String: Double],
    ) {
        self.name = name
        self.abstract = abstract
        self.figure = figure
        self.bar = bar
        self.isMinimum = isMinimum
        self.usesWorstRun = usesWorstRun
        self.perform = perform
    }

    /// All benchmarks.
    package static let all: [Benchmark] = [
        .fanout, .transactional, .flat, .lanes, .bulkheads, .memory, .rate, .kills, .registration, .browsers,
        .encryption, .listing, .scaling, .memoryAfterAttack, .hostileClients, .recovery,
    ]

    /// Returns the benchmark of a name.
    package static func named(_ name: String) -> Benchmark? { Self.all.first { $0.name == name } }

    /// Runs the benchmark a number of times, each in a cluster of its own, and computes the medians.
    ///
    /// - Parameters:
    ///   - runs: the number of runs; an odd number has a middle one.
    ///   - devices: the devices of the audience; nil for the benchmark's default.
    ///   - say: receives progress messages.
    package func run(
        _ runs: Int,
        devices: Int? = nil,
        say: @escaping @Sendable (String) -> Void = { _ in },
    ) async throws -> BenchmarkReport {
        precondition(runs > 0, "something is measured")
        var figures: [[String: Double]] = []
        for number in 1...runs {
            say("run \(number) of \(runs)")
            let found = try await self.perform(BenchmarkRun(seed: UInt64(number), devices: devices, say: say))
            say("\(found.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", "))")
            figures.append(found)
        }
        return BenchmarkReport(self, figures)
    }
}

/// One run of a benchmark.
struct BenchmarkRun: Sendable {
    let seed: UInt64
    let devices: Int?
    let say: @Sendable (String) -> Void
}

/// The result of a benchmark: each figure's median over the runs, with the least and the most.
package struct BenchmarkReport: Hashable, Sendable {
    /// The minimum, median and maximum of a figure.
    package struct Spread: Hashable, Sendable {
        /// The minimum.
        package var least: Double
        /// The median; for an even number the mean of the two middle ones.
        package var median: Double
        /// The maximum.
        package var most: Double

        /// Computes the spread of numbers, of which there must be at least one.
        package init(_ numbers: [Double]) {
            precondition(!numbers.isEmpty, "there is a figure")
            let sorted = numbers.sorted()
            let upper = sorted.count / 2
            self.least = sorted[0]
            self.most = sorted[sorted.count - 1]
            self.median = sorted.count.isMultiple(of: 2) ? (sorted[upper - 1] + sorted[upper]) / 2 : sorted[upper]
        }
    }

    /// The benchmark's name.
    package var name: String
    /// The figure that decides whether the benchmark passes.
    package var figure: String
    /// The limit that the figure must keep.
    package var bar: Double
    /// True when the figure must not be below the bar, instead of above.
    package var isMinimum: Bool
    /// True when the worst run decides instead of the median.
    package var usesWorstRun: Bool
    /// The number of runs.
    package var runs: Int
    /// All figures.
    package var figures: [String: Spread]

    init(_ benchmark: Benchmark, _ runs: [[String: Double]]) {
        self.name = benchmark.name
        self.figure = benchmark.figure
        self.bar = benchmark.bar
        self.isMinimum = benchmark.isMinimum
        self.usesWorstRun = benchmark.usesWorstRun
        self.runs = runs.count
        self.figures = [:]
        for name in Set(runs.flatMap(\.keys)) { self.figures[name] = Spread(runs.compactMap { $0[name] }) }
    }

    /// True when the median, or the worst run, keeps the bar, and no recipient was lost.
    package var passed: Bool {
        guard let spread = self.figures[self.figure], self.figures["lost"]?.most ?? 0 == 0 else { return false }
        if self.isMinimum { return (self.usesWorstRun ? spread.least : spread.median) >= self.bar }
        return (self.usesWorstRun ? spread.most : spread.median) <= self.bar
    }

    /// Returns the report as JSON, with the machine and the revision.
    package func json(revision: String) -> JSONObject {
        var figures = JSONObject()
        for (name, spread) in self.figures.sorted(by: { $0.key < $1.key }) {
            figures[name] = [
                "median": NumberText.json(spread.median, 3), "least": NumberText.json(spread.least, 3),
                "most": NumberText.json(spread.most, 3),
            ]
        }
        return [
            "name": .string(self.name), "passed": .bool(self.passed), "figure": .string(self.figure),
            "bar": NumberText.json(self.bar, 3), "runs": .integer(self.runs), "figures": .object(figures),
            "machine": .object(Machine.current.json), "revision": .string(revision),
        ]
    }

    /// The report as lines.
    package var lines: [String] {
        let width = (self.figures.keys.map(\.count).max() ?? 0) + 2
        func text(_ value: Double) -> String { NumberText.json(value, 2).text }
        var lines = self.figures.sorted { $0.key < $1.key }.map { name, spread in
            "\(name)\(String(repeating: " ", count: width - name.count))\(text(spread.median))"
                + "   (\(text(spread.least)) to \(text(spread.most)) in \(self.runs) runs)"
        }
        let relation = self.isMinimum ? "at least" : "at most"
        let when = self.usesWorstRun ? " in every run" : ""
        lines.append(
            "\(self.passed ? "passed" : "FAILED")  \(self.figure) is to be \(relation) \(text(self.bar))\(when)"
        )
        return lines
    }
}
