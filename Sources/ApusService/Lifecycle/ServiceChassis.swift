public import ApusMetrics
internal import Dispatch
internal import FoundationEssentials
internal import Glibc
package import Logging
internal import NIOCore
internal import NIOPosix
internal import ServiceLifecycle
internal import Synchronization

/// The exit codes of a program.
public enum ExitCode: Int32, Sendable {
    /// The program did everything that was asked.
    case done = 0
    /// Something failed, or did not end in time.
    case failed = 1
    /// The command line or the configuration is wrong (EX_USAGE of sysexits.h).
    case usage = 64
}

/// Runs a service's process from its command line to its exit code.
public enum ServiceChassis {
    /// The longest time that cancelled parts may take after the drain's deadline before the process ends anyway.
    static let cancellationDurationMax = Duration.seconds(5)
    /// The longest time that writing the last log lines may take.
    static let flushDurationMax = Duration.seconds(1)
    /// The time within which a failure of parts that were made anew is blamed on their changed settings, so that the former ones are used.
    /// Parts that were never ready, because they waited for Redis, have as long as that takes.
    static let trialDuration = Duration.seconds(60)

    /// Runs a service until a signal ends it.
    ///
    /// - Parameters:
    ///   - name: the service.
    ///   - settings: the type of the service's own settings.
    ///   - metrics: the type of the service's own metric families.
    ///   - arguments: the command line without the program's name; nil for the process's own.
    ///   - environment: the environment variables; nil for the process's own.
    ///   - assemble: creates the service's own parts.
    public static func run<Own: ServiceSettings, Metrics: MetricSet>(
        _ name: ServiceName,
        settings: Own.Type,
        metrics: Metrics.Type,
        arguments: [String]? = nil,
        environment: [String: String]? = nil,
        assemble: @escaping ChassisService<Own, Metrics>.Assemble,
    ) async -> Never {
        let options: ServiceArguments
        do {
            options = try ServiceArguments(arguments ?? Array(CommandLine.arguments.dropFirst()))
        } catch {
            Self.writeError("\(name.programName): \(error.message)\n\n\(ServiceArguments.usage(name.programName))")
            exit(ExitCode.usage.rawValue)
        }
        switch options.command {
        case .help: Self.end(saying: ServiceArguments.usage(name.programName))
        case .version: Self.end(saying: "\(name.programName) \(BuildInformation.packageVersion)")
        case .run, .check: break
        }
        let environment = environment ?? ProcessInfo.processInfo.environment
        let live: LiveSettings<Own>
        do {
            live = try LiveSettings(options.source(environment: environment), for: name)
        } catch {
            Self.writeError("\(name.programName): \(error)")
            exit(ExitCode.usage.rawValue)
        }
        let issues = live.current.issuesOfFiles()
        guard issues.isEmpty else {
            Self.writeError("\(name.programName): \(SettingsError(issues: issues))")
            exit(ExitCode.usage.rawValue)
        }
        if options.command == .check {
            let summary = SettingsSummary(live.source, live.current.common)
            for gap in summary.gaps { Self.writeError(gap.line) }
            Self.end(saying: summary.sentence("valid"))
        }
        let code = await Self.serve(live, metrics: metrics, assemble: assemble)
        exit(code.rawValue)
    }

    private static func serve<Own: ServiceSettings, Metrics: MetricSet>(
        _ live: LiveSettings<Own>,
        metrics: Metrics.Type,
        assemble: @escaping ChassisService<Own, Metrics>.Assemble,
    ) async -> ExitCode {
        let common = live.current.common
        // The reader of the log may go away: that ends the log, not the service.
        _ = signal(SIGPIPE, SIG_IGN)
        OpenFileLimit.raise()
        let sink = LogSink.standardOutput(common.log)
        LoggingSystem.bootstrap { ApusLogHandler(label: $0, sink: sink) }
        let group = MultiThreadedEventLoopGroup(
            numberOfThreads: (common.eventLoops == 0 ? System.coreCount : common.eventLoops) + Own.reservedEventLoops
        )
        let control = ProcessControl(sink: sink)
        let trap = SignalTrap([SIGTERM, SIGINT, SIGHUP]) { number in
            control.receive(number == SIGHUP ? .reloadAsked : .stopAsked)
        }
        defer { withExtendedLifetime(trap) {} }
        let logger = sink.logger(live.service.programName)
        var code = ExitCode.done
        var former: Settings<Own>?
        while true {
            let used = live.current
            let service = ChassisService(
                live,
                metrics: metrics,
                sink: sink,
                eventLoopGroup: group,
                canRenew: true,
                assemble: assemble,
            )
            // A service that is made anew ends of itself.
            let outer = ServiceGroup(
                configuration: .init(
                    services: [.init(service: service, successTerminationBehavior: .gracefullyShutdownGroup)],
                    logger: logger.forServiceGroup
                )
            )
            let start = ContinuousClock.now
            do {
                guard
                    control.begin(
                        ProcessControl.Run(
                            drainTimeout: used.common.drainTimeout,
                            reload: service.askForReload,
                            stop: { Task { await outer.triggerGracefulShutdown() } }
                        )
                    )
                else { break }
                try await outer.run()
                if control.isLate {
                    logger.error("the drain did not end in time: its remaining parts were cancelled")
                    code = .failed
                }
                guard service.context.renewal.isRequested, !control.isStopping else { break }
                // Settings with which nothing was ever ready are not to be gone back to, if there are others.
                if former == nil || service.context.readiness.hasBeenReady { former = live.inForce }
            } catch {
                let isTrial =
                    ContinuousClock.now - start < Self.trialDuration || !service.context.readiness.hasBeenReady
                if let settings = former, !control.isStopping, isTrial {
                    logger.error("the changed settings failed, the former ones are used again", error: error)
                    live.restore(settings, after: error, hasNewest: service.context.renewal.changes > 0)
                    former = nil
                    continue
                }
                logger.critical("failed", error: error)
                code = .failed
                break
            }
        }
        control.receive(.finished)
        logger.info("stopped", metadata: ["exit_code": .stringConvertible(code.rawValue)])
        sink.flush(within: Self.flushDurationMax)
        return code
    }

    private static func writeError(_ text: String) {
        writeAll(Array((text + "\n").utf8), to: STDERR_FILENO)
    }

    private static func end(saying text: String) -> Never {
        writeAll(Array((text + "\n").utf8), to: STDOUT_FILENO)
        exit(ExitCode.done.rawValue)
    }
}

/// Drives the shutdown state machine. The drain's deadline runs from the first request to stop.
private final class ProcessControl: Sendable {
    /// The service as it runs, which is another one after its settings have changed.
    struct Run: Sendable {
        let drainTimeout: Duration
        let reload: @Sendable () -> Void
        let stop: @Sendable () -> Void
    }

    private struct State {
        var machine = ShutdownMachine()
        var drainStarted: ContinuousClock.Instant?
        var run: Run?
    }

    private let state = Mutex(State())
    private let sink: LogSink

    init(sink: LogSink) { self.sink = sink }

    /// Takes a run that is about to begin.
    ///
    /// - Returns: false when the process is to stop.
    func begin(_ run: Run) -> Bool {
        self.state.withLock { state in
            state.run = run
            return state.drainStarted == nil
        }
    }

    /// True once the process was asked to stop.
    var isStopping: Bool { self.state.withLock { $0.drainStarted != nil } }

    /// True when the drain has exceeded its time limit.
    var isLate: Bool {
        self.state.withLock { state in
            guard let start = state.drainStarted, let run = state.run else { return false }
            return ContinuousClock.now - start >= run.drainTimeout
        }
    }

    func receive(_ event: ShutdownMachine.Event) {
        let (action, run) = self.state.withLock { state in
            let action = state.machine.receive(event)
            if action == .drain { state.drainStarted = ContinuousClock.now }
            return (action, state.run)
        }
        if action == .drain {
            let limit = (run?.drainTimeout ?? .zero) + ServiceChassis.cancellationDurationMax
            DispatchQueue.global().asyncAfter(deadline: .now() + .milliseconds(Int(limit / .milliseconds(1)))) {
                self.receive(.deadlinePassed)
            }
        }
        if action == .exit {
            self.sink.logger("apus").error("ending at once", metadata: ["cause": "\(event)"])
            self.sink.flush(within: .milliseconds(200))
        }
        switch action {
        case .reload: run?.reload()
        case .drain: run?.stop()
        case .exit: exit(ExitCode.failed.rawValue)
        case .ignore: break
        }
    }
}

extension Logger {
    /// The logger for a group of services, which at `debug` describes each by all that it holds: thousands of words, and secrets if it has any.
    package var forServiceGroup: Logger {
        var logger = self
        logger.logLevel = max(logger.logLevel, .notice)
        return logger
    }
}
