internal import ApusCore
internal import ApusRedis

/// Names a route whose provider answers with failures, or not at all, so that a dispatcher holds back what goes there; or for which a
/// dispatcher has no connection or no credential.
package struct FailingRoute: Hashable, Sendable {
    /// The route, "<app>/<provider>/<environment>".
    package var route: String
    /// The time since when it has been failing.
    package var milliseconds: Int64
    /// The provider's last reason, in its own words, empty when no answer came; or the reason why there is no connection or no credential.
    package var word: String
    /// True when there is no connection or no credential.
    package var isUnreachable: Bool

    /// Creates a name of a route that has been failing for that long.
    package init(route: String, milliseconds: Int64, word: String, isUnreachable: Bool = false) {
        self.route = route
        self.milliseconds = milliseconds
        self.word = word
        self.isUnreachable = isUnreachable
    }

    /// Reads one line of a report; nil when it is none.
    init?(_ line: some StringProtocol) {
        let parts = line.split(separator: "\t", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count >= 3, let milliseconds = Int64(parts[1]) else { return nil }
        self.init(
            route: String(parts[0]),
            milliseconds: milliseconds,
            word: String(parts[2]),
            isUnreachable: parts.count > 3 && String(parts[3]) == Self.unreachable,
        )
    }

    /// The line of a report.
    var line: String {
        let word = String(self.word.map { $0.isNewline || $0 == "\t" ? " " : $0 })
            .clipped(toBytes: Limits.providerTextBytesMax)
        return "\(self.route)\t\(self.milliseconds)\t\(word)" + (self.isUnreachable ? "\t\(Self.unreachable)" : "")
    }

    /// The end of a line about a route without a connection or a credential.
    private static let unreachable = "unreachable"
}

/// Describes a process of a service, as it last reported itself.
package struct ReportedProcess: Hashable, Sendable {
    /// The name of the process: host, process id and a random number.
    package var name: String
    /// The service, such as "dispatcher".
    package var service: String
    /// The version of the program.
    package var version: String
    /// The time since the process started.
    package var startedMillisecondsAgo: Int64
    /// The time since its last report.
    package var seenMillisecondsAgo: Int64
    /// The reason why it is not ready; nil when it is.
    package var problem: String?
    /// The reason why it goes on with former settings although its configuration has changed; nil when it does not.
    package var refusedConfiguration: String?
    /// The routes whose provider fails or cannot be connected to, as a dispatcher's process has it.
    package var failingRoutes: [FailingRoute] = []
    /// True when it has keys that records of devices are encrypted with.
    package var encryptsRecords = false

    /// Creates a description.
    package init(
        name: String,
        service: String,
        version: String,
        startedMillisecondsAgo: Int64,
        seenMillisecondsAgo: Int64,
        problem: String? = nil,
    ) {
        self.name = name
        self.service = service
        self.version = version
        self.startedMillisecondsAgo = startedMillisecondsAgo
        self.seenMillisecondsAgo = seenMillisecondsAgo
        self.problem = problem
    }

    /// The same process for readers who may not see every app: without its reasons and routes, which name apps.
    package var withoutReasons: ReportedProcess {
        var process = self
        process.problem = self.problem.map { _ in Self.hiddenReason }
        process.refusedConfiguration = self.refusedConfiguration.map { _ in Self.hiddenReason }
        process.failingRoutes = []
        return process
    }

    private static let hiddenReason = "its log says why"
}

/// Tells which processes of a service run, and which are missing: they have stopped reporting without a shutdown, and no later process
/// took their place.
package struct ServiceAvailability: Hashable, Sendable {
    /// The processes that report themselves, the longest-running first.
    package private(set) var running: [ReportedProcess] = []
    /// The processes that are missing, the longest-silent first.
    package private(set) var missing: [ReportedProcess] = []

    /// Finds the processes of one service.
    ///
    /// A process counts as replaced by one that started after its last report. Each replaces one, so that two that died are not both
    /// replaced by a single start. One that started within the two seconds between a last report and the end counts, too: a supervisor starts
    /// a process again within milliseconds.
    package init(of service: String, among processes: [ReportedProcess]) {
        let own = processes.filter { $0.service == service }
        let limit = StreamLimits.serviceSilenceMilliseconds
        self.running = own.filter { $0.seenMillisecondsAgo <= limit }
            .sorted { ($1.startedMillisecondsAgo, $0.name) < ($0.startedMillisecondsAgo, $1.name) }
        let silent = own.filter { $0.seenMillisecondsAgo > limit }
            .sorted { ($0.seenMillisecondsAgo, $0.name) < ($1.seenMillisecondsAgo, $1.name) }
        // The last to fall silent has the fewest that can have replaced it, so it is served first.
        var newest = self.running
        for process in silent {
            if let latest = newest.last, latest.startedMillisecondsAgo < process.seenMillisecondsAgo {
                newest.removeLast()
            } else {
                self.missing.insert(process, at: 0)
            }
        }
    }
}

/// Keeps the list of the services' processes.
package struct ServiceProcesses: Sendable {
    let access: StreamAccess

    private static var tag: HashTag { HashTag(ofKey: StreamKeys.services) }

    /// Records that a process runs, and for how long already.
    ///
    /// - Parameters:
    ///   - problem: the reason why it is not ready; cut at 500 bytes. Nil when it is ready.
    ///   - refusedConfiguration: the reason why former settings are in use although the configuration has changed; cut at 500 bytes.
    ///   - failingRoutes: the routes whose provider fails or cannot be connected to; the first 100 are kept.
    ///   - encryptsRecords: true when it has keys that records of devices are encrypted with.
    package func report(
        _ name: String,
        service: String,
        version: String,
        uptimeMilliseconds: Int64,
        problem: String?,
        refusedConfiguration: String? = nil,
        failingRoutes: [FailingRoute] = [],
        encryptsRecords: Bool = false,
    ) async throws {
        let lines = failingRoutes.prefix(StreamLimits.serviceFailingRoutesMax).map(\.line)
        let call = ReportServiceCall(
            keys: [StreamKeys.services],
            process: name,
            service: service,
            version: version,
            uptimeMilliseconds: uptimeMilliseconds,
            problem: problem?.clipped(toBytes: StreamLimits.serviceProblemBytesMax),
            refusedConfiguration: refusedConfiguration?.clipped(toBytes: StreamLimits.serviceProblemBytesMax),
            failingRoutes: lines.isEmpty ? nil : lines.joined(separator: "\n"),
            encryptsRecords: encryptsRecords,
        )
        _ = try await self.access.call(call, on: Self.tag)
    }

    /// Takes a process out of the list.
    ///
    /// - Returns: false when it was not in the list.
    package func remove(_ name: String) async throws -> Bool {
        let call = RemoveServiceCall(keys: [StreamKeys.services], process: name)
        return try await self.access.call(call, on: Self.tag).number() == 1
    }

    /// Returns the routes whose provider fails or cannot be connected to, as the dispatchers that run have it: each with the longest of their
    /// times.
    package func failingRoutes() async throws -> [String: FailingRoute] { Self.failingRoutes(of: try await self.all()) }

    /// Returns the same from processes that were read.
    package static func failingRoutes(of processes: [ReportedProcess]) -> [String: FailingRoute] {
        let running = processes.filter { $0.seenMillisecondsAgo <= StreamLimits.serviceSilenceMilliseconds }
        return Dictionary(running.flatMap(\.failingRoutes).map { ($0.route, $0) }) { one, other in
            one.milliseconds < other.milliseconds ? other : one
        }
    }

    /// Returns all processes that have reported within a day, by name.
    ///
    /// - Parameter patience: the time during which the client repeats the command; nil for the configuration's.
    package func all(patience: Duration? = nil) async throws -> [ReportedProcess] {
        let call = ListServicesCall(keys: [StreamKeys.services])
        let rows = try await self.access.call(call, on: Self.tag, patience: patience).elements()
        return try rows.map { row in
            var process = ReportedProcess(
                name: try row[0].text(),
                service: try row[1].text(),
                version: try row[2].text(),
                startedMillisecondsAgo: try row[3].number(),
                seenMillisecondsAgo: try row[4].number(),
                problem: try row[5].text().isEmpty ? nil : try row[5].text(),
            )
            process.refusedConfiguration = try row[7].text().isEmpty ? nil : try row[7].text()
            process.failingRoutes = try row[6].text().split(separator: "\n").compactMap { FailingRoute($0) }
            process.encryptsRecords = try !row[8].text().isEmpty
            return process
        }.sorted { $0.name < $1.name }
    }

    /// Returns the milliseconds since a process of a service last stopped as it was asked to, by service; none for longer than a day ago.
    ///
    /// - Parameter patience: as in ``all(patience:)``.
    package func stopped(patience: Duration? = nil) async throws -> [String: Int64] {
        let call = ListStoppedServicesCall(keys: [StreamKeys.services])
        let rows = try await self.access.call(call, on: Self.tag, patience: patience).elements()
        return Dictionary(try rows.map { (try $0[0].text(), try $0[1].number()) }) { _, last in last }
    }
}

struct ReportServiceCall: FunctionCall {
    static let function = "apus2_report_service"
    var keys: [String]
    var process: String
    var service: String
    var version: String
    var uptimeMilliseconds: Int64
    var problem: String?
    var refusedConfiguration: String?
    var failingRoutes: String?
    var encryptsRecords = false

    func set(_ fields: inout CallFields) {
        fields.set("process", self.process)
        fields.set("service", self.service)
        fields.set("version", self.version)
        fields.set("uptime_ms", self.uptimeMilliseconds)
        fields.set("problem", optional: self.problem)
        fields.set("refused_configuration", optional: self.refusedConfiguration)
        fields.set("failing_routes", optional: self.failingRoutes)
        fields.set("encrypts_records", self.encryptsRecords, default: false)
    }
}

struct RemoveServiceCall: FunctionCall {
    static let function = "apus2_remove_service"
    var keys: [String]
    var process: String

    func set(_ fields: inout CallFields) { fields.set("process", self.process) }
}

struct ListServicesCall: FunctionCall {
    static let function = "apus2_list_services"
    static let isReadOnly = true
    var keys: [String]
}

struct ListStoppedServicesCall: FunctionCall {
    static let function = "apus2_list_stopped_services"
    static let isReadOnly = true
    var keys: [String]
}
