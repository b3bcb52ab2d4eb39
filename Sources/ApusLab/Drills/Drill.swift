/// Causes a fault on purpose in a cluster of real processes during a send, and checks the result of the send.
package struct Drill: Sendable {
    /// The sizes of drills.
    package enum Size: String, CaseIterable, Sendable {
        /// A few thousand devices and some seconds: for the tests.
        case short
        /// A hundred thousand devices and a minute: for figures.
        case long
    }

    /// The name for `--drill`.
    package let name: String
    /// A sentence about the fault.
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

    /// All drills, in the order of the list.
    package static let all: [Drill] = [
        .noFault, .publishedThrice, .terminated, .dispatcherKilled, .dispatcherKilledAlone, .twentyKills, .browserKills,
        .zombie, .feedbackKilled, .redisRestarted, .redisPaused, .masterKilled, .masterFrozen, .mastersFailedOver,
        .mastersAdded, .slotsHalfMoved, .masterRolledBack, .registrationRolledBack, .joinedWithoutFunctions,
        .mastersDown, .sentinelFailover, .goAway, .wrongCertificate, .providerStalled, .providerDown,
        .quotaStorm,
        .unavailableStorm, .poison,
    ]

    /// Returns the drill of a name.
    package static func named(_ name: String) -> Drill? { Self.all.first { $0.name == name } }

    /// Runs the drill in a cluster of its own.
    ///
    /// - Parameters:
    ///   - devices: the number of devices; nil for the drill's own.
    ///   - seed: the seed of random times.
    ///   - say: receives progress messages.
    /// - Returns: the report; an error in the drill itself is a complaint in it.
    /// - Throws: only `CancellationError`.
    package func run(
        _ size: Size,
        devices: Int? = nil,
        seed: UInt64 = 1,
        say: @escaping @Sendable (String) -> Void = { _ in },
    ) async throws -> DrillReport {
        let start = ContinuousClock.now
        var report: DrillReport
        do {
            report = try await self.perform(DrillRun(drill: self, size: size, devices: devices, seed: seed, say: say))
        } catch {
            guard !(error is CancellationError), !Task.isCancelled else { throw CancellationError() }
            report = DrillReport(name: self.name, size: size, seed: seed)
            report.complaints = ["\(error)"]
        }
        report.seconds = (ContinuousClock.now - start) / .seconds(1)
        return report
    }
}

/// The settings of one run: its size, its seed and the receiver of progress.
struct DrillRun: Sendable {
    let drill: Drill
    let size: Drill.Size
    /// The number of devices; nil for the drill's own.
    let devices: Int?
    let seed: UInt64
    let say: @Sendable (String) -> Void

    /// Returns the first value for the short form, the second for the long one.
    func sized<Value>(_ short: Value, _ long: Value) -> Value { self.size == .short ? short : long }
}
