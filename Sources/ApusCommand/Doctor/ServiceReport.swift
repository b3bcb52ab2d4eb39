package import ApusCore
internal import ApusService
package import ApusStreams
package import ApusTerminal

/// Shows the processes of the services, and the consequences of those that are missing: `apus services`, `apus lag` and `apus doctor`.
package struct ServiceReport: Sendable {
    private let processes: [ReportedProcess]
    /// The milliseconds since a process of a service last stopped as it was asked to, by service.
    private let stopped: [String: Int64]

    /// Creates a report of those processes.
    ///
    /// - Parameter stopped: the milliseconds since a process of a service last stopped as it was asked to, by service.
    package init(_ processes: [ReportedProcess], stopped: [String: Int64] = [:]) {
        (self.processes, self.stopped) = (processes, stopped)
    }

    /// Reads the processes of an installation.
    package init(_ streams: SendStreams) async throws {
        self.init(try await streams.processes.all(), stopped: try await streams.processes.stopped())
    }

    /// The same report for readers who may not see every app: without the reasons of processes, which may name apps.
    package var withoutReasons: ServiceReport {
        ServiceReport(self.processes.map(\.withoutReasons), stopped: self.stopped)
    }

    private func availability(of service: ServiceName) -> ServiceAvailability {
        ServiceAvailability(of: service.rawValue, among: self.processes)
    }

    // MARK: The list

    /// Each process as JSON.
    package var json: JSONObject {
        let rows = ServiceName.allCases.flatMap { service in
            let availability = self.availability(of: service)
            return availability.running.map { Self.json($0, "running") }
                + availability.missing.map { Self.json($0, "missing") }
        }
        let stopped = ServiceName.allCases.compactMap { service -> JSONValue? in
            self.stopped[service.rawValue].map {
                ["service": .string(service.rawValue), "stopped_ms_ago": .integer($0)]
            }
        }
        return ["processes": .array(rows), "stopped": .array(stopped)]
    }

    private static func json(_ process: ReportedProcess, _ state: String) -> JSONValue {
        var object: JSONObject = [
            "service": .string(process.service), "process": .string(process.name), "state": .string(state),
            "version": .string(process.version), "started_ms_ago": .integer(process.startedMillisecondsAgo),
            "seen_ms_ago": .integer(process.seenMillisecondsAgo),
        ]
        if let problem = process.problem { object["problem"] = .string(problem) }
        if let reason = process.refusedConfiguration { object["refused_configuration"] = .string(reason) }
        return .object(object)
    }

    /// The processes as a table, with a line for each service of which none runs.
    package var lines: [String] {
        var table = TextTable(["SERVICE", "PROCESS", "VERSION", ">UP", ">SEEN", "STATE"])
        for service in ServiceName.allCases {
            let availability = self.availability(of: service)
            for process in availability.running {
                table.add(Self.row(process, Self.state(of: process)))
            }
            for process in availability.missing { table.add(Self.row(process, "missing")) }
            if availability.running.isEmpty && availability.missing.isEmpty {
                let end = self.stopped[service.rawValue].map { "stopped \(NumberText.age(milliseconds: $0)) ago" }
                table.add([service.rawValue, "none", "", "", "", end ?? "has not run within a day"])
            }
        }
        return table.lines
    }

    private static func state(of process: ReportedProcess) -> String {
        if let problem = process.problem { return "not ready: \(problem)" }
        return process.refusedConfiguration.map { "ready, with former settings: \($0)" } ?? "ready"
    }

    private static func row(_ process: ReportedProcess, _ state: String) -> [String] {
        [
            process.service, process.name, process.version,
            NumberText.age(milliseconds: process.startedMillisecondsAgo),
            "\(NumberText.age(milliseconds: process.seenMillisecondsAgo)) ago", state,
        ]
    }

    // MARK: The consequences

    /// The number of processes of each service that run and that are missing, as JSON.
    package var summaries: [JSONObject] {
        ServiceName.allCases.map { service in
            let availability = self.availability(of: service)
            return [
                "service": .string(service.rawValue), "running": .integer(Int64(availability.running.count)),
                "missing": .integer(Int64(availability.missing.count)),
            ]
        }
    }

    /// The findings that are not in order, as sentences.
    package var concerns: [String] {
        self.findings.filter { $0.verdict != .ok }.map { "\($0.subject): \($0.sentence)" }
    }

    /// The services without which a send stands still, and of which no process runs or none is ready.
    package var obstacles: [SendObstacle] {
        [ServiceName.dispatcher, .feedback].compactMap { service in
            let running = self.availability(of: service).running
            guard running.allSatisfy({ $0.problem != nil }) else { return nil }
            let (problem, finding) = (running.first?.problem ?? "", self.finding(about: service))
            return SendObstacle(
                id: "\(service.rawValue) \(problem)",
                sentence: "\(finding.subject): \(finding.sentence)"
            )
        }
    }

    /// One finding for each service.
    package var findings: [Diagnosis.Finding] { ServiceName.allCases.map { self.finding(about: $0) } }

    /// One finding for each service: that none runs is a failure where something waits for it.
    ///
    /// - Parameter backlog: the entries of all streams.
    package func findings(beside backlog: [StreamBacklog.Row]) -> [Diagnosis.Finding] {
        ServiceName.allCases.map { service in
            var finding = self.finding(about: service)
            guard finding.verdict == .warn, self.availability(of: service).running.isEmpty,
                let waiting = service.waiting(in: backlog)
            else { return finding }
            finding.verdict = .fail
            finding.detail += ", and \(waiting) for it"
            return finding
        }
    }

    private func finding(about service: ServiceName) -> Diagnosis.Finding {
        let (name, availability) = (service.rawValue, self.availability(of: service))
        let start = "Start \(service.programName); its log says why it ended"
        guard !availability.running.isEmpty else {
            guard let last = availability.missing.last else {
                let start = "Start \(service.programName)"
                guard let stopped = self.stopped[name] else {
                    return .init(
                        .warn,
                        .services,
                        name,
                        "none has run within a day: \(service.absence)",
                        cure: start
                    )
                }
                let age = NumberText.age(milliseconds: stopped)
                let detail = "none runs: the last was stopped \(age) ago; \(service.absence)"
                return .init(.warn, .services, name, detail, cure: start)
            }
            let age = NumberText.age(milliseconds: last.seenMillisecondsAgo)
            let detail = "none runs: \(last.name) was last seen \(age) ago; \(service.absence)"
            return .init(.fail, .services, name, detail, cure: start)
        }
        if let first = availability.missing.first {
            let age = NumberText.age(milliseconds: first.seenMillisecondsAgo)
            let detail =
                "\(availability.running.count) running, \(availability.missing.count) missing: \(first.name) was last seen \(age) ago"
            return .init(
                .warn,
                .services,
                name,
                detail,
                cure: "\(start). If it is gone for good: apus services --forget \(first.name)"
            )
        }
        if let (process, problem) = availability.running.lazy.compactMap({ process in
            process.problem.map { (process, $0) }
        })
        .first {
            let detail = "\(process.name) is not ready: \(problem)"
            return .init(availability.running.allSatisfy { $0.problem != nil } ? .fail : .warn, .services, name, detail)
        }
        if let (process, reason) = availability.running.lazy.compactMap({ process in
            process.refusedConfiguration.map { (process, $0) }
        })
        .first {
            let detail = "\(process.name) goes on with former settings: \(reason)"
            let cure =
                "Correct the setting or its file: the service looks at its files every few seconds, and at once at SIGHUP"
            return .init(.warn, .services, name, detail, cure: cure)
        }
        let versions = Set(availability.running.map(\.version)).sorted()
        guard versions.count == 1 else {
            let detail = "versions \(versions.joined(separator: " and ")) run beside each other"
            return .init(.warn, .services, name, detail, cure: "Finish the upgrade")
        }
        return .init(.ok, .services, name, "\(availability.running.count) running, version \(versions[0])")
    }
}

extension ServiceName {
    /// The consequence when no process of the service runs.
    fileprivate var absence: String {
        switch self {
        case .registration: "no device can register, and nobody can publish by HTTP"
        case .dispatcher: "nothing is sent"
        case .feedback: "no send is completed, and no dead token is removed"
        }
    }

    /// Returns what waits for the service, such as "3 entries and 1 open send wait"; nil for nothing, and for one without which no send
    /// stands still.
    fileprivate func waiting(in backlog: [StreamBacklog.Row]) -> String? {
        let names: [String]
        switch self {
        case .registration: return nil
        case .dispatcher: names = ["in", "plan", "work"]
        case .feedback: names = ["outcomes", "events"]
        }
        func isRead(_ row: StreamBacklog.Row) -> Bool {
            names.contains(String(row.name.prefix { $0 != ":" && $0 != " " }))
                || (self == .dispatcher && row.name == StreamBacklog.due && row.oldestMilliseconds != nil)
        }
        let entries = backlog.filter(isRead).reduce(0) { $0 + $1.backlog + ($1.pending ?? 0) }
        let sends = backlog.filter { $0.name == StreamBacklog.openSends }.reduce(0) { $0 + $1.backlog }
        var parts: [String] = []
        if entries > 0 { parts.append(NumberText.counted(entries, "entry", "entries")) }
        if sends > 0 { parts.append(NumberText.counted(sends, "open send", "open sends")) }
        guard !parts.isEmpty else { return nil }
        return "\(parts.joined(separator: " and ")) \(entries + sends == 1 ? "waits" : "wait")"
    }
}
