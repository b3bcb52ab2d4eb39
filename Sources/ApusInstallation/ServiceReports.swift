internal import ApusStreams
package import Logging

/// Reports every few seconds that this process runs, so that `apus services`, `apus doctor` and alerts know when it no longer does.
package struct ServiceReports: Sendable {
    /// The time between two looks whether a process that starts is ready.
    private static let startPause = Duration.milliseconds(50)

    private let processes: ServiceProcesses
    private let name: String
    private let service: String
    private let version: String
    private let logger: Logger
    private let problem: @Sendable () async -> String?
    private let start = ContinuousClock.now

    /// Creates the reports of a process.
    ///
    /// - Parameters:
    ///   - name: the name of the process, as the streams' consumers have it.
    ///   - service: the service, such as "dispatcher".
    ///   - version: the version of the program.
    ///   - problem: returns the reason why the process is not ready; nil when it is.
    package init(
        _ installation: Installation,
        name: String,
        service: String,
        version: String,
        logger: Logger,
        problem: @escaping @Sendable () async -> String?,
    ) {
        self.processes = installation.streams.processes
        self.name = name
        self.service = service
        self.version = version
        self.logger = logger
        self.problem = problem
    }

    /// Reports until it is cancelled. A report that fails is logged, and the next one is made in its time. The first one waits until the
    /// process is ready, for as long as there is between two reports: a process that starts is not in trouble.
    package func run() async {
        let patience = self.start + StreamLimits.serviceReportInterval
        while !Task.isCancelled, ContinuousClock.now < patience, await self.problem() != nil {
            try? await Task.sleep(for: Self.startPause)
        }
        while !Task.isCancelled {
            do {
                try await self.processes.report(
                    self.name,
                    service: self.service,
                    version: self.version,
                    uptimeMilliseconds: Int64((ContinuousClock.now - self.start) / .milliseconds(1)),
                    problem: await self.problem(),
                )
            } catch {
                self.logger.debug("the process could not report itself", metadata: ["error": "\(error)"])
            }
            try? await Task.sleep(for: StreamLimits.serviceReportInterval)
        }
    }

    /// Takes the process out of the list: it has been asked to stop, and takes no new work.
    package func end() async {
        do {
            _ = try await self.processes.remove(self.name)
        } catch {
            self.logger.debug("the process could not take itself out of the list", metadata: ["error": "\(error)"])
        }
    }
}
