internal import ApusStore
package import ApusStreams
package import Logging

/// Reports every few seconds that this process runs, so that `apus services`, `apus doctor` and alerts know when it no longer does.
package struct ServiceHeartbeat: Sendable {
    /// The time between two looks whether a process that starts is ready.
    private static let startPause = Duration.milliseconds(50)

    private let processes: ServiceProcesses
    private let encryption: RecordEncryption
    private let consumer: StreamConsumer
    private let version: String
    private let logger: Logger
    private let failingRoutes: @Sendable () async -> [FailingRoute]
    private let refusedConfiguration: @Sendable () -> String?
    private let problem: @Sendable () async -> String?
    private let start = ContinuousClock.now

    /// Creates the heartbeat of a process.
    ///
    /// - Parameters:
    ///   - consumer: the name of the process and its group, which is the name of its service.
    ///   - version: the version of the program.
    ///   - failingRoutes: returns the routes whose provider fails or cannot be connected to.
    ///   - refusedConfiguration: returns the reason why former settings are in use although the configuration has changed; nil when they
    ///     are not.
    ///   - problem: returns the reason why the process is not ready; nil when it is.
    package init(
        _ installation: Installation,
        _ consumer: StreamConsumer,
        version: String,
        logger: Logger,
        failingRoutes: @escaping @Sendable () async -> [FailingRoute] = { [] },
        refusedConfiguration: @escaping @Sendable () -> String?,
        problem: @escaping @Sendable () async -> String?,
    ) {
        self.processes = installation.streams.processes
        self.encryption = installation.store.encryption
        self.consumer = consumer
        self.version = version
        self.logger = logger
        self.failingRoutes = failingRoutes
        self.refusedConfiguration = refusedConfiguration
        self.problem = problem
    }

    /// Reports until it is cancelled. A report that fails is logged, and the next one is made in its time. The first one waits until the
    /// process is ready, for as long as there is between two reports: a process that starts is not in trouble.
    package func run() async {
        let patience = self.start + StreamLimits.heartbeatInterval
        while !Task.isCancelled, ContinuousClock.now < patience, await self.problem() != nil {
            try? await Task.sleep(for: Self.startPause)
        }
        while !Task.isCancelled {
            do {
                try await self.processes.report(
                    self.consumer.name,
                    service: self.consumer.group,
                    version: self.version,
                    uptimeMilliseconds: Int64((ContinuousClock.now - self.start) / .milliseconds(1)),
                    problem: await self.problem(),
                    refusedConfiguration: self.refusedConfiguration(),
                    failingRoutes: await self.failingRoutes(),
                    encryptsRecords: self.encryption.isOn,
                )
            } catch {
                self.logger.debug("the process could not report itself", metadata: ["error": "\(error)"])
            }
            try? await Task.sleep(for: StreamLimits.heartbeatInterval)
        }
    }

    /// Takes the process out of the list: it has been asked to stop, and takes no new work.
    package func end() async {
        do {
            _ = try await self.processes.remove(self.consumer.name)
        } catch {
            self.logger.debug("the process could not take itself out of the list", metadata: ["error": "\(error)"])
        }
    }
}
