import ApusCommand
import ApusStreams
import ApusTerminal
import Testing

/// Tests the words about the services' processes, without a server.
@Suite struct ServiceReportTests {
    private static func process(
        _ name: String,
        _ service: String,
        version: String = "1",
        started: Int64 = 100,
        seen: Int64 = 1,
        problem: String? = nil,
    ) -> ReportedProcess {
        ReportedProcess(
            name: name,
            service: service,
            version: version,
            startedMillisecondsAgo: started * 1_000,
            seenMillisecondsAgo: seen * 1_000,
            problem: problem,
        )
    }

    @Test func `All is well while each service has a process that is ready`() {
        let report = ServiceReport(["registration", "dispatcher", "feedback"].map { Self.process("\($0)-1", $0) })
        #expect(report.concerns == [])
        #expect(report.findings.map(\.verdict) == [.ok, .ok, .ok])
        #expect(report.findings.map(\.subject) == ["registration", "dispatcher", "feedback"])
        #expect(report.lines.count == 4 && report.lines.dropFirst().allSatisfy { $0.contains("ready") })
    }

    @Test func `A service without a process fails, one that never ran is a warning, and both say what stands still`() {
        let report = ServiceReport([Self.process("a", "dispatcher", seen: 40), Self.process("b", "feedback")])
        #expect(report.findings.map(\.verdict) == [.warn, .fail, .ok])
        #expect(report.findings[0].detail.contains("none has run within a day: no device can register"))
        #expect(report.findings[1].detail == "none runs: a was last seen 40s ago; nothing is sent")
        #expect(report.findings[1].cure.contains("apus-dispatcher"))
        #expect(report.concerns.count == 2)
        #expect(report.lines.contains { $0.contains("missing") })
    }

    @Test func `A service that was stopped has run, and it is a failure that none runs while something waits`() {
        let stopped: [String: Int64] = ["dispatcher": 3_000, "feedback": 90_000]
        let report = ServiceReport([], stopped: stopped)
        #expect(report.findings.map(\.verdict) == [.warn, .warn, .warn])
        #expect(report.findings[0].detail.hasPrefix("none has run within a day: "))
        #expect(report.findings[1].detail == "none runs: the last was stopped 3s ago; nothing is sent")
        #expect(report.lines.count == 4 && report.lines[1].hasSuffix("has not run within a day"))
        #expect(report.lines[2].hasSuffix("stopped 3s ago") && report.lines[3].hasSuffix("stopped 1m30s ago"))
        #expect(report.concerns.first { $0.hasPrefix("dispatcher") }?.contains("none runs") == true)

        func row(_ name: String, _ backlog: Int64, pending: Int64? = nil) -> StreamBacklog.Row {
            StreamBacklog.Row(name: name, shard: "", backlog: backlog, pending: pending)
        }
        func verdicts(_ rows: StreamBacklog.Row...) -> [Diagnosis.Verdict] {
            report.findings(beside: rows).map(\.verdict)
        }
        // Scheduled sends that are not due wait for nobody.
        #expect(verdicts(row("in:bulk", 0), row("due", 5), row("register", 9)) == [.warn, .warn, .warn])
        #expect(verdicts(row("in:express", 1)) == [.warn, .fail, .warn])
        #expect(verdicts(row("work shop/apns/production bulk", 0, pending: 1)) == [.warn, .fail, .warn])
        #expect(verdicts(row("outcomes", 1)) == [.warn, .warn, .fail])
        #expect(verdicts(row("sends", 1)) == [.warn, .fail, .fail])
        let waiting = report.findings(beside: [row("in:bulk", 2), row("sends", 1)])[1].detail
        #expect(waiting.hasSuffix("nothing is sent, and 2 entries and 1 open send wait for it"))
        let fresh = ServiceReport([]).findings(beside: [])
        #expect(fresh.map(\.verdict) == [.warn, .warn, .warn])
        let running = ServiceReport([Self.process("d", "dispatcher"), Self.process("f", "feedback")])
        #expect(running.findings(beside: [row("sends", 1)]).map(\.verdict) == [.warn, .ok, .ok])
    }

    @Test func `A send stands still without a ready dispatcher or feedback, not without a second`() {
        let well = [Self.process("d", "dispatcher"), Self.process("f", "feedback")]
        #expect(ServiceReport(well).obstacles == [])
        #expect(ServiceReport(well + [Self.process("gone", "dispatcher", started: 900, seen: 60)]).obstacles == [])
        #expect(ServiceReport([]).obstacles.count == 2)
        let ill = ServiceReport([Self.process("d", "dispatcher", problem: "streams: unread"), well[1]])
        #expect(ill.obstacles.map(\.sentence) == ["dispatcher: d is not ready: streams: unread"])
        #expect(ill.withoutReasons.obstacles.map(\.sentence) == ["dispatcher: d is not ready: its log says why"])
        let dead = ServiceReport([Self.process("d", "dispatcher", seen: 40), well[1]])
        let obstacles = dead.obstacles.map(\.sentence)
        #expect(obstacles.count == 1 && obstacles[0].contains("nothing is sent. Start apus-dispatcher"))
    }

    @Test func `One of two that is missing, unready or of another version is named`() {
        let well = Self.process("well", "dispatcher")
        func finding(_ other: ReportedProcess) -> Diagnosis.Finding {
            ServiceReport([well, other]).findings[1]
        }
        let missing = finding(Self.process("gone", "dispatcher", started: 900, seen: 60))
        #expect(missing.verdict == .warn && missing.detail.contains("1 running, 1 missing: gone"))
        #expect(missing.cure.contains("apus services --forget gone"))
        let unready = finding(Self.process("ill", "dispatcher", problem: "redis: away"))
        #expect(unready.verdict == .warn && unready.detail == "ill is not ready: redis: away")
        #expect(ServiceReport([Self.process("ill", "dispatcher", problem: "redis: away")]).findings[1].verdict == .fail)
        var former = Self.process("late", "dispatcher")
        former.refusedConfiguration = "shop/toy: the provider refuses it"
        let kept = finding(former)
        #expect(kept.verdict == .warn && kept.cure.contains("SIGHUP"))
        #expect(kept.detail == "late goes on with former settings: shop/toy: the provider refuses it")
        #expect(ServiceReport([former]).lines.contains { $0.contains("ready, with former settings: shop/toy") })
        let hidden = ServiceReport([former]).withoutReasons.findings[1]
        #expect(hidden.verdict == .warn && hidden.detail == "late goes on with former settings: its log says why")
        let older = finding(Self.process("old", "dispatcher", version: "0"))
        #expect(older.verdict == .warn && older.detail.contains("versions 0 and 1"))
    }
}
