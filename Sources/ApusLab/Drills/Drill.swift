/// A fault that is caused on purpose in a cluster of real processes in the middle of a send, with the check of what became of the send.
package struct Drill: Sendable {
    /// How many devices and how much time a drill takes.
    package enum Size: String, CaseIterable, Sendable {
        /// A few thousand devices, seconds: among the tests.
        case short
        /// A hundred thousand devices, a minute: for figures.
        case long
    }

    /// The name that `--drill` takes.
    package let name: String
    /// One sentence about the fault.
    package let abstract: String
    private let perform: @Sendable (DrillRun) async throws -> DrillReport

    /// Creates a drill.
    init(
        _ name: String,
        _ abstract: String,
        _ perform: @escaping @Sendable (DrillRun) async throws -> DrillReport,
    ) {
        self.name = name
        self.abstract = abstract
        self.perform = perform
    }

    /// All of them, in the order of reading.
    package static let all: [Drill] = [
        .noFault, .publishedThrice, .terminated, .dispatcherKilled, .dispatcherKilledAlone, .twentyKills, .zombie,
        .feedbackKilled, .redisRestarted, .redisPaused, .goAway, .wrongCertificate, .providerStalled, .providerDown,
        .quotaStorm,
        .unavailableStorm, .poison,
    ]

    /// The drill of that name.
    package static func named(_ name: String) -> Drill? { Self.all.first { $0.name == name } }

    /// Runs it in a cluster of its own.
    ///
    /// - Parameters:
    ///   - seed: what random moments are drawn from.
    ///   - say: told what happens.
    /// - Returns: the report; an error in the drill itself is a complaint in it.
    /// - Throws: only `CancellationError`.
    package func run(
        _ size: Size,
        seed: UInt64 = 1,
        say: @escaping @Sendable (String) -> Void = { _ in },
    ) async throws -> DrillReport {
        let start = ContinuousClock.now
        var report: DrillReport
        do {
            report = try await self.perform(DrillRun(drill: self, size: size, seed: seed, say: say))
        } catch {
            guard !(error is CancellationError), !Task.isCancelled else { throw CancellationError() }
            report = DrillReport(name: self.name, size: size, seed: seed)
            report.complaints = ["\(error)"]
        }
        report.seconds = (ContinuousClock.now - start) / .seconds(1)
        return report
    }
}

/// One run of a drill: its size, its seed and where progress goes.
struct DrillRun: Sendable {
    let drill: Drill
    let size: Drill.Size
    let seed: UInt64
    let say: @Sendable (String) -> Void

    /// The one for the short form, the other for the long one.
    func sized<Value>(_ short: Value, _ long: Value) -> Value { self.size == .short ? short : long }
}
