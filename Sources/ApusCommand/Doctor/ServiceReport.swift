package import ApusCore
internal import ApusService
package import ApusStreams
package import ApusTerminal

/// Shows the processes of the services, and the consequences of those that are missing: `apus services`, `apus lag` and `apus doctor`.
package struct ServiceReport: Sendable {
    private let processes: [ReportedProcess]

    /// Creates a report of those processes.
    package init(_ processes: [ReportedProcess]) { self.processes = processes }

    /// Reads the processes of an installation.
    package init(_ streams: SendStreams) async throws { self.init(try await streams.processes.all()) }

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
        return ["processes": .array(rows)]
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
                table.add([service.rawValue, "none", "", "", "", "has not run within a day"])
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

    private func finding(about service: ServiceName) -> Diagnosis.Finding {
        let (name, availability) = (service.rawValue, self.availability(of: service))
        let start = "Start \(service.programName); its log says why it ended"
        guard !availability.running.isEmpty else {
            guard let last = availability.missing.last else {
                return .init(
                    .warn,
                    .services,
                    name,
                    "none has run within a day: \(service.absence)",
                    cure: "Start \(service.programName)"
                )
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
}
