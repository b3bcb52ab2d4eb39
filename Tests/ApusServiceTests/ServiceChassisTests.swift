import ApusCore
import ApusMetrics
import ApusService
import ApusTLS
import Foundation
import ServiceLifecycle
import Testing

private struct NoMetrics: MetricSet {}

/// Sends the process a signal once it runs; ends when told, or never.
private struct Signalled: Service {
    let signals: [Int32]
    let endsWhenCancelled: Bool

    func run() async throws {
        let service = self
        // The signal must not come before everything is started.
        Task.detached {
            for number in service.signals {
                try await Task.sleep(for: .milliseconds(200))
                kill(getpid(), number)
            }
        }
        if self.endsWhenCancelled {
            try? await gracefulShutdown()
        } else {
            // It obeys neither the shutdown nor a cancellation: only the process's own end ends it.
            await withUnsafeContinuation { (_: UnsafeContinuation<Void, Never>) in }
        }
    }
}

/// Obeys cancellation, but takes its time before.
private struct Slow: Service {
    func run() async throws {
        Task.detached {
            try await Task.sleep(for: .milliseconds(200))
            kill(getpid(), SIGTERM)
        }
        try? await Task.sleep(for: .seconds(3_600))
    }
}

private struct Broken: Service {
    struct SampleError: Error {}

    func run() async throws { throw SampleError() }
}

/// Changes the configuration's drain_timeout when it first runs, and ends the process when it runs with the one that it expects. Notes each
/// run in a file.
private struct Renewed: Service {
    let folder: String
    /// The setting of this run.
    let drainTimeout: Duration
    let effect: Effect
    /// The settings of this run, and what keeps newer ones from being used.
    let settings: LiveSettings<NoSettings>

    /// The effects of the changed setting.
    enum Effect {
        /// It is used.
        case works
        /// The part cannot run with it.
        case breaks
        /// It comes with a private key that cannot be read at first.
        case heals
        /// The part cannot run with it, and has taken over an app before.
        case breaksLater
    }

    /// Changes the setting beside a certificate whose key comes later.
    private func changeWithKey() async throws {
        let now = SystemClock().now()
        let validity = CertificateValidity(from: now, until: now.advanced(byMilliseconds: 86_400_000))
        let authority = try CertificateAuthority(name: "Root", validity: validity)
        let identity = try authority.issue(CertificateProfile(.server, commonName: "localhost", validity: validity))
        func write(_ name: String, _ text: String) throws {
            try text.write(toFile: "\(self.folder)/\(name)", atomically: true, encoding: .utf8)
        }
        try write("chain.pem", identity.certificateChainPEM)
        try write("key.pem", "not yet")
        let files = "certificate_file: \(self.folder)/chain.pem, key_file: \(self.folder)/key.pem"
        try write("apus.yaml", "drain_timeout: 21s\nadmin: {tls: {\(files)}}\n")
        kill(getpid(), SIGHUP)
        while self.settings.refusal == nil { try await Task.sleep(for: .milliseconds(10)) }
        try write("key.pem", identity.privateKeyPEM)
        kill(getpid(), SIGHUP)
    }

    /// Adds an app, which needs no other part, and then changes the setting.
    private func changeAfterApp() async throws {
        func write(_ drainTimeout: String) throws {
            try "drain_timeout: \(drainTimeout)\napps: {shop: {receipt_streams: [orders]}}\n"
                .write(toFile: "\(self.folder)/apus.yaml", atomically: true, encoding: .utf8)
            kill(getpid(), SIGHUP)
        }
        try write("20s")
        while self.settings.current.common.apps.isEmpty { try await Task.sleep(for: .milliseconds(10)) }
        try write("21s")
    }

    private var runs: Int { (try? String(contentsOfFile: "\(self.folder)/runs", encoding: .utf8))?.utf8.count ?? 0 }

    func run() async throws {
        let run = self.runs + 1
        try String(repeating: "x", count: run).write(toFile: "\(self.folder)/runs", atomically: true, encoding: .utf8)
        switch (run, self.effect) {
        case (1, _):
            guard self.drainTimeout == .seconds(20) else { exit(7) }
            Task.detached {
                try await Task.sleep(for: .seconds(60))
                exit(6)
            }
            switch self.effect {
            case .heals: try await self.changeWithKey()
            case .breaksLater: try await self.changeAfterApp()
            case .works, .breaks:
                try "drain_timeout: 21s\n".write(toFile: "\(self.folder)/apus.yaml", atomically: true, encoding: .utf8)
                kill(getpid(), SIGHUP)
            }
        case (2, .breaks), (2, .breaksLater):
            guard self.drainTimeout == .seconds(21) else { exit(8) }
            throw Broken.SampleError()
        default:
            let isBack = self.effect == .breaks || self.effect == .breaksLater
            guard self.drainTimeout == .seconds(isBack ? 20 : 21) else { exit(9) }
            guard self.settings.current.common.apps.isEmpty == (self.effect != .breaksLater) else { exit(10) }
            kill(getpid(), SIGTERM)
        }
        try? await gracefulShutdown()
    }
}

private func runRenewed(_ effect: Renewed.Effect) async {
    let folder = FileManager.default.temporaryDirectory.path() + "apus-renewal-\(getpid())"
    try? FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    try? FileManager.default.removeItem(atPath: "\(folder)/runs")
    try? "drain_timeout: 20s\n".write(toFile: "\(folder)/apus.yaml", atomically: true, encoding: .utf8)
    await ServiceChassis.run(
        .feedback,
        settings: NoSettings.self,
        metrics: NoMetrics.self,
        arguments: ["--config", "\(folder)/apus.yaml"],
        environment: ["APUS_ADMIN_LISTEN": "127.0.0.1:0"],
    ) { context in
        [
            Renewed(
                folder: folder,
                drainTimeout: context.settings.current.common.drainTimeout,
                effect: effect,
                settings: context.settings,
            )
        ]
    }
}

private func runService(_ part: any Service, _ arguments: [String] = [], drain: String = "20s") async {
    await ServiceChassis.run(
        .feedback,
        settings: NoSettings.self,
        metrics: NoMetrics.self,
        arguments: arguments,
        environment: ["APUS_ADMIN_LISTEN": "127.0.0.1:0", "APUS_DRAIN_TIMEOUT": drain],
    ) { _ in [part] }
}

/// Each runs a whole service in a process of its own.
@Suite struct ServiceChassisTests {
    @Test func aSignalDrainsAndTheExitCodeIsZero() async {
        await #expect(processExitsWith: .exitCode(0)) {
            await runService(Signalled(signals: [SIGTERM], endsWhenCancelled: true))
        }
        await #expect(processExitsWith: .exitCode(0)) {
            await runService(Signalled(signals: [SIGHUP, SIGINT], endsWhenCancelled: true))
        }
    }

    @Test func aSecondSignalEndsAtOnce() async {
        let start = ContinuousClock.now
        await #expect(processExitsWith: .exitCode(1)) {
            // Two signals count as one while the first is not yet taken, so there are more of them.
            let signals = [Int32](repeating: SIGTERM, count: 100)
            await runService(Signalled(signals: signals, endsWhenCancelled: false), drain: "10m")
        }
        #expect(ContinuousClock.now - start < .seconds(300))
    }

    @Test func aPartThatNeverEndsDoesNotKeepTheProcess() async {
        await #expect(processExitsWith: .exitCode(1)) {
            await runService(Signalled(signals: [SIGTERM], endsWhenCancelled: false), drain: "100ms")
        }
    }

    @Test func aDrainThatHadToBeCutShortIsAFailure() async {
        await #expect(processExitsWith: .exitCode(1)) { await runService(Slow(), drain: "100ms") }
    }

    @Test func aPartThatFailsIsAFailure() async {
        await #expect(processExitsWith: .exitCode(1)) { await runService(Broken()) }
    }

    @Test func `Changed settings are used by new parts in the same process`() async {
        await #expect(processExitsWith: .exitCode(0)) { await runRenewed(.works) }
    }

    @Test func `Parts that cannot run with changed settings run with the former ones`() async {
        await #expect(processExitsWith: .exitCode(0)) { await runRenewed(.breaks) }
    }

    @Test func `Parts that cannot run with changed settings run with what was taken over before`() async {
        await #expect(processExitsWith: .exitCode(0)) { await runRenewed(.breaksLater) }
    }

    @Test func `Changed settings that wait for a file are used once it is right`() async {
        await #expect(processExitsWith: .exitCode(0)) { await runRenewed(.heals) }
    }

    @Test func wrongUsageAndWrongConfigurationAre64() async throws {
        let usage = await #expect(processExitsWith: .exitCode(64), observing: [\.standardErrorContent]) {
            await runService(Broken(), ["--colour"])
        }
        let said = String(decoding: try #require(usage).standardErrorContent, as: UTF8.self)
        #expect(said.contains("apus-feedback: --colour is not an option\n\nusage: apus-feedback [--config FILE]"))

        let wrong = await #expect(processExitsWith: .exitCode(64), observing: [\.standardErrorContent]) {
            await runService(Broken(), drain: "soon")
        }
        #expect(
            String(decoding: try #require(wrong).standardErrorContent, as: UTF8.self).contains(
                """
                apus-feedback: the configuration has 1 mistake:
                  drain_timeout (APUS_DRAIN_TIMEOUT): must be a duration with a unit, such as 250ms, 10s, 5m or 2h

                """
            )
        )
    }

    @Test func questionsAreAnsweredWithoutServing() async {
        await #expect(processExitsWith: .exitCode(0)) { await runService(Broken(), ["--check"]) }
        await #expect(processExitsWith: .exitCode(0)) { await runService(Broken(), ["--help"]) }
        await #expect(processExitsWith: .exitCode(0)) { await runService(Broken(), ["--version"]) }
    }
}
