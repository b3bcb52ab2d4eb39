import ApusCore
import ApusLab
import ApusMessages
import ApusStreams
import Testing

@Suite struct DemoReportTests {
    private func row(expired: UInt64 = 0, skipped: UInt64 = 0) -> DemoReport.SendRow {
        var status = SendStatus(send: "s-1")
        status.phase = .done
        status.planned = 1_000
        status.counts = [
            OutcomeCount(provider: .apns, outcome: .accepted, reason: .none, count: 980 - expired - skipped),
            OutcomeCount(provider: .apns, outcome: .unregistered, reason: .unregistered, count: 20),
            OutcomeCount(provider: .fcm, outcome: .expired, reason: .ttl, count: expired),
            OutcomeCount(provider: .fcm, outcome: .skipped, reason: .deviceGone, count: skipped),
        ]
        status.lastAt = UnixMilliseconds(2_500)
        var row = DemoReport.SendRow(name: "everyone", status: status, publishedAtNanoseconds: 2_000_000_000)
        row.audience = 1_000
        row.acceptedByProviders = Int(row.accepted)
        return row
    }

    private func report() -> DemoReport {
        var report = DemoReport()
        report.devices = 1_000
        report.dead = 20
        report.pruned = 20
        report.registrationSeconds = 2
        report.sends = [self.row()]
        report.latencies = (1...200).map { $0 * 10_000 }
        report.dispatcherSecondsPerMillion = 4.256
        return report
    }

    @Test func `A row adds up, and its rate is over the time to the last outcome`() {
        let row = self.row(expired: 7, skipped: 3)
        #expect(row.recipients == 1_000)
        #expect(row.accepted + row.unregistered + row.failed == row.recipients)
        #expect(row.failed == 10)
        #expect(abs(row.elapsedSeconds - 0.501) < 0.001)
        #expect(abs(row.ratePerSecond - 1_996) < 1)
    }

    @Test func `Percentiles are of the nearest rank`() {
        let report = self.report()
        #expect(report.latency(percentile: 50) == 1.0)
        #expect(report.latency(percentile: 99) == 1.98)
        #expect(report.latency(percentile: 100) == 2.0)
        #expect(report.latency(percentile: 0) == 0.01)
        #expect(DemoReport().latency(percentile: 50) == nil)
    }

    @Test func `The JSON has the promised keys`() throws {
        let json = JSONValue.object(self.report().json)
        for key in [
            "devices", "sends", "pruned", "lost", "repeated", "dispatcher_cpu_seconds_per_million", "latency_ms",
            "machine",
        ] {
            #expect(json[key] != nil, "\(key)")
        }
        let send = try #require(json["sends"]?.array?.first)
        for key in [
            "name", "send", "recipients", "accepted", "unregistered", "failed", "elapsed_seconds", "rate_per_second",
        ] {
            #expect(send[key] != nil, "\(key)")
        }
        #expect(json["latency_ms"]?["p50"]?.double == 1.0)
        #expect(json["latency_ms"]?["p99"]?.double == 1.98)
        #expect(json["dispatcher_cpu_seconds_per_million"]?.double == 4.26)
        #expect(JSONValue.object(DemoReport().json)["latency_ms"]?["p50"]?.isNull == true)
    }

    @Test func `A consistent report has no complaints`() {
        #expect(self.report().complaints.isEmpty)
    }

    @Test func `Every inconsistency is a complaint`() {
        let changes: [(inout DemoReport) -> Void] = [
            { $0.audit.lost = 1 }, { $0.audit.repeated = 1 }, { $0.audit.unexpected = 1 }, { $0.pruned = 19 },
            { $0.prunedAlive = 1 }, { $0.leftInStreams = 1 }, { $0.sends[0].audience = 999 },
            { $0.sends[0].audience = 1_001 }, { $0.sends[0].acceptedByProviders = 979 },
            { $0.sends[0].acceptedByProviders = 981 }, { $0.sends[0] = self.row(expired: 1) },
            { $0.sends[0] = self.row(skipped: 1) },
        ]
        for change in changes {
            var report = self.report()
            change(&report)
            #expect(report.complaints.count == 1)
        }
    }

    @Test func `Counts of a send may deviate by what a killed master may cost, and no further`() {
        var report = self.report()
        report.repeatedMax = 10
        report.sends[0] = self.row(expired: 7, skipped: 3)
        report.sends[0].audience -= 10
        report.sends[0].acceptedByProviders += 10
        #expect(report.complaints.isEmpty)
        report.sends[0] = self.row(expired: 8, skipped: 3)
        report.sends[0].audience -= 11
        report.sends[0].acceptedByProviders += 11
        #expect(report.complaints.count == 3)
    }

    @Test func `A refused send has no counts to compare`() {
        var report = self.report()
        report.sends[0].audience = 0
        report.sends[0].refusal = "invalid: too large"
        #expect(report.complaints.isEmpty)
    }

    @Test func `The command is called by its name once its folder is on the path`() throws {
        let programs = try ServicePrograms.besideThis()
        let lines = Demo.commandLines(programs, redis: "redis://127.0.0.1:7000")
        let words = lines.map { $0.replacing("the command", with: "").split(separator: " ").joined(separator: " ") }
        let folder = programs.path("").dropLast()
        #expect(
            words == [
                #"export PATH="\#(folder):$PATH""#, "export APUS_REDIS_URL=redis://127.0.0.1:7000",
                "apus lag; apus send --app demo --topic sport --title Goal --wait",
            ]
        )
    }

    @Test func `A process's times are read past brackets and spaces in its name`() {
        let stat = "42 (a (b) c) S 1 42 42 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 8 0 100 0 0"
        #expect(ProcessStatistics.processorSeconds(stat: stat, ticksPerSecond: 100) == 3)
        #expect(ProcessStatistics.processorSeconds(stat: "42 (a) S 1", ticksPerSecond: 100) == nil)
        #expect(ProcessStatistics.processorSeconds(stat: "", ticksPerSecond: 100) == nil)
    }
}
