import ApusCore
import ApusInstallation
import ApusLab
import ApusMessages
import ApusStreams
import ApusTestKit
import Testing

/// Tests that a process which ends without a shutdown, or freezes, is noticed.
@Suite(.serialized) struct ServicesTests {
    private struct Listed: Hashable {
        var service: String
        var state: String
    }

    private static func listed(_ fleet: Fleet) throws -> (code: Int32, processes: [Listed], names: [String]) {
        let answer = try fleet.apus("services")
        let processes = answer.json["processes"] as? [[String: Any]] ?? []
        return (
            answer.code,
            processes.map {
                Listed(service: $0["service"] as? String ?? "", state: $0["state"] as? String ?? "")
            },
            processes.map { $0["process"] as? String ?? "" },
        )
    }

    private static func gauge(_ service: String, _ state: String) -> String {
        "apus_feedback_service_processes{service=\"\(service)\",state=\"\(state)\"}"
    }

    @Test func `A killed dispatcher and a frozen feedback are missing until replaced or thawed, a stopped one is not`()
        async throws
    {
        try await Fleet.with { fleet in
            let feedback = try await fleet.startFeedback()
            let (registration, _) = try await fleet.startRegistration()
            let first = try await fleet.startDispatcher()
            let second = try await fleet.startDispatcher()
            let running = ["registration", "dispatcher", "dispatcher", "feedback"].map {
                Listed(service: $0, state: "running")
            }
            try await eventually("all report themselves as ready") {
                try Self.listed(fleet).processes == running && Self.listed(fleet).code == 0
            }
            #expect(try await feedback.metric(Self.gauge("dispatcher", "running")) == 2)

            // A process that starts after another's last report takes its place: the second must not have.
            try await eventually("the first has reported since the second started") {
                let rows = try fleet.apus("services").json["processes"] as? [[String: Any]] ?? []
                func times(_ key: String) -> [Int] {
                    rows.filter { $0["service"] as? String == "dispatcher" }.compactMap { $0[key] as? Int }
                }
                return (times("seen_ms_ago").max() ?? .max) < (times("started_ms_ago").min() ?? 0)
            }
            await first.kill()
            let missing = Listed(service: "dispatcher", state: "missing")
            try await eventually("the killed dispatcher is missing", timeout: .seconds(60)) {
                try Self.listed(fleet).processes.contains(missing)
            }
            #expect(try Self.listed(fleet).code == 2)
            #expect(try await feedback.metric(Self.gauge("dispatcher", "missing")) == 1)
            #expect(try await feedback.metric(Self.gauge("dispatcher", "running")) == 1)
            let lag = try fleet.apus("lag").json["services"] as? [[String: Any]] ?? []
            #expect(lag.first { $0["service"] as? String == "dispatcher" }?["missing"] as? Int == 1)

            let third = try await fleet.startDispatcher()
            try await eventually("the third took its place") { try Self.listed(fleet).processes == running }
            #expect(try await feedback.metric(Self.gauge("dispatcher", "missing")) == 0)
            try await third.terminate()
            #expect(try Self.listed(fleet).processes == [running[0], running[1], running[3]])

            await second.kill()
            feedback.freeze()
            let ended = [running[0], missing, Listed(service: "feedback", state: "missing")]
            try await eventually("both are missing", timeout: .seconds(60)) {
                try Self.listed(fleet).processes == ended
            }
            let doctor = try fleet.apus("doctor", "--offline")
            let findings = (doctor.json["findings"] as? [[String: Any]] ?? []).filter {
                $0["check"] as? String == "services"
            }
            #expect(findings.map { $0["verdict"] as? String } == ["ok", "fail", "fail"])
            #expect((findings[1]["detail"] as? String)?.hasSuffix("nothing is sent") == true)
            #expect(doctor.code == 1)

            feedback.thaw()
            try await eventually("feedback is back", timeout: .seconds(60)) {
                try Self.listed(fleet).processes == [running[0], missing, running[3]]
            }
            let names = try Self.listed(fleet).names
            _ = try fleet.apus("services", "--forget", names[1])
            #expect(try Self.listed(fleet).processes == [running[0], running[3]])
            #expect(try fleet.apus("services", "--forget", names[1]).code == 1)
            try await feedback.terminate()
            try await registration.terminate()
            #expect(try Self.listed(fleet).processes == [])
            // Feedback stopped as it was asked to, and has run; one that must not wait for it is told so.
            let stopped = try fleet.apus("services").json["stopped"] as? [[String: Any]] ?? []
            #expect(stopped.compactMap { $0["service"] as? String } == ["registration", "dispatcher", "feedback"])
            func verdicts() throws -> [String?] {
                (try fleet.apus("doctor", "--offline").json["findings"] as? [[String: Any]] ?? [])
                    .filter { $0["check"] as? String == "services" }.map { $0["verdict"] as? String }
            }
            #expect(try verdicts() == ["warn", "warn", "warn"])
            _ = try await fleet.send(.topic("nobody"), id: "waiting")
            #expect(try verdicts() == ["warn", "fail", "warn"])
        }
    }

    @Test func `Feedback tells an autoscaler how long commands wait, also while no dispatcher runs`() async throws {
        try await Fleet.with { fleet in
            let feedback = try await fleet.startFeedback()
            func scale() async throws -> (status: Int, report: JSONValue) {
                let answer = try await feedback.get("scale")
                return (answer.status, try JSONValue(parsing: Array(answer.body.utf8), bytesMax: 1 << 16))
            }
            try await eventually("it has the number") { try await scale().status == 200 }
            let idle = try await scale()
            #expect(idle.report["oldest_waiting_seconds"]?.double == 0 && idle.report["backlog"]?.int64 == 0)
            _ = try await fleet.send(.topic("nobody"), id: "waiting")
            try await eventually("the command waits for longer than a second") {
                let report = try await scale().report
                return report["backlog"]?.int64 == 1 && report["oldest_waiting_seconds"]?.double ?? 0 > 1
            }
            let dispatcher = try await fleet.startDispatcher()
            try await eventually("nothing waits any more") {
                let report = try await scale().report
                return report["backlog"]?.int64 == 0 && report["oldest_waiting_seconds"]?.double == 0
                    && report["backlog_by_provider"]?["apns"]?.int64 == 0
            }
            #expect(try await dispatcher.get("scale").status == 404)
            fleet.redis.suspend()
            try await eventually("there is no number while Redis does not answer") {
                try await scale().status == 503
            }
            fleet.redis.resume()
            try await eventually("it is back") { try await scale().status == 200 }
        }
    }
}
